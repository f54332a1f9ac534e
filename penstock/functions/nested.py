"""The scalar functions on ARRAYs, STRUCTs and MAPs: their signatures and meanings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import RunError
from penstock.functions.signatures import Entry, Family, always, takes
from penstock.model.ordering import canonical, exact_key
from penstock.model.types import BIGINT, BOOLEAN, STRING, Type, array_of

_F = Family


def _keys(arguments: tuple[Type, ...]) -> Type:
    return array_of(arguments[0].parts[0][1])


def _values(arguments: tuple[Type, ...]) -> Type:
    return array_of(arguments[0].item)


NESTED_SIGNATURES: list[Entry] = [
    ("cardinality", takes(_F.COLLECTION), always(BIGINT), "how many items or pairs"),
    ("array_contains", takes(_F.ARRAY, _F.ANY), always(BOOLEAN), "whether it is among the items"),
    ("map_keys", takes(_F.MAP), _keys, "the keys of a MAP, as an ARRAY"),
    ("map_values", takes(_F.MAP), _values, "the values of a MAP, as an ARRAY"),
    (
        "string_split",
        takes(_F.STRING, _F.STRING),
        always(array_of(STRING)),
        "the pieces between separators, as an ARRAY",
    ),
    (
        "array_join",
        takes(_F.TEXTS, _F.STRING),
        always(STRING),
        "the texts of an ARRAY that are not NULL, with a separator between them",
    ),
]


# Meanings. ARRAYs, STRUCTs and MAPs are tuples here (see `model/types.py`).


def element(items: tuple[Any, ...], place: int) -> Any:
    """Item at a place: from 1 on, or from −1 on counted from the end; NULL outside."""
    at = place - 1 if place > 0 else len(items) + place
    return items[at] if place and 0 <= at < len(items) else None


def map_value(pairs: tuple[tuple[Any, Any], ...], key: Any) -> Any:
    """Value of a key; the last one if there are several."""
    return next((value for known, value in reversed(pairs) if known == key), None)


def contains(items: tuple[Any, ...], wanted: Any) -> bool | None:
    """Membership as by IN: NULL if the value is not found but an item is NULL."""
    if any(canonical(each) == canonical(wanted) for each in items if each is not None):
        return True
    return None if None in items else False


def map_with(given: list[Any]) -> tuple[tuple[Any, Any], ...]:
    """MAP of alternating keys and values."""
    if None in given[::2]:
        raise RunError("NULL cannot be the key of a MAP")
    return tuple(zip(given[::2], given[1::2], strict=True))


def _distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Distinct items, in the order of their first occurrence."""
    first: dict[Any, Any] = {}
    for each in items:
        first.setdefault(None if each is None else (canonical(each),), each)
    return tuple(first.values())


def _position(items: tuple[Any, ...], wanted: Any) -> int:
    same = (place for place, each in enumerate(items, start=1) if _equal(each, wanted))
    return next(same, 0)


def _equal(item: Any, wanted: Any) -> bool:
    return item is not None and canonical(item) == canonical(wanted)


def _slice(items: tuple[Any, ...], begin: int, end: int) -> tuple[Any, ...]:
    """Items from one place to another, both included; negative places count from the end."""
    first = len(items) + begin if begin < 0 else begin - 1
    last = len(items) + end + 1 if end < 0 else end
    return items[max(0, first) : max(0, last)]


def _extreme(largest: bool) -> Callable[[tuple[Any, ...]], Any]:
    def compute(items: tuple[Any, ...]) -> Any:
        known = sorted((each for each in items if each is not None), key=exact_key)
        return known[-1 if largest else 0] if known else None

    return compute


NESTED_MEANINGS: dict[str, Callable[..., Any]] = {
    "element": element,
    "map_value": map_value,
    "struct_field": lambda values, place: values[place],
    "cardinality": len,
    "array_contains": contains,
    "array_concat": lambda *arrays: tuple(each for items in arrays for each in items),
    "array_reverse": lambda items: items[::-1],
    "array_distinct": _distinct,
    "array_position": _position,
    "array_slice": _slice,
    "array_max": _extreme(largest=True),
    "array_min": _extreme(largest=False),
    "map_keys": lambda pairs: tuple(key for key, _ in pairs),
    "map_values": lambda pairs: tuple(value for _, value in pairs),
    "string_split": lambda text, separator: tuple(text.split(separator)) if separator else (text,),
    "array_join": lambda items, separator: separator.join(
        each for each in items if each is not None
    ),
}
