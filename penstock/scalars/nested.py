"""Functions on ARRAYs, STRUCTs and MAPs, which are tuples here (see `model/types.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import RunError
from penstock.scalars.ordering import canonical


def element(items: tuple[Any, ...], place: int) -> Any:
    """From 1 on; from −1 on, from the end; NULL where there is none."""
    at = place - 1 if place > 0 else len(items) + place
    return items[at] if place and 0 <= at < len(items) else None


def map_value(pairs: tuple[tuple[Any, Any], ...], key: Any) -> Any:
    """Of several, the last."""
    return next((value for known, value in reversed(pairs) if known == key), None)


def contains(items: tuple[Any, ...], wanted: Any) -> bool | None:
    """As IN: NULL if it is not found and might be one of those that are unknown."""
    if any(canonical(each) == canonical(wanted) for each in items if each is not None):
        return True
    return None if None in items else False


def map_with(given: list[Any]) -> tuple[tuple[Any, Any], ...]:
    """Of keys and values in turn."""
    if None in given[::2]:
        raise RunError("NULL cannot be the key of a MAP")
    return tuple(zip(given[::2], given[1::2], strict=True))


NESTED: dict[str, Callable[..., Any]] = {
    "element": element,
    "map_value": map_value,
    "struct_field": lambda values, place: values[place],
    "cardinality": len,
    "array_contains": contains,
    "map_keys": lambda pairs: tuple(key for key, _ in pairs),
    "map_values": lambda pairs: tuple(value for _, value in pairs),
    "string_split": lambda text, separator: tuple(text.split(separator)) if separator else (text,),
    "array_join": lambda items, separator: separator.join(
        each for each in items if each is not None
    ),
}
