"""Values inside JSON texts, by paths such as `$.a.b[0]`. A text that is no valid JSON has none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from penstock.errors import RunError, shortened

Path: TypeAlias = tuple[str | int, ...]
_STEP = re.compile(r"""\.([^.\[\]"']+)|\[(\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]|\."([^"]*)\"""")


class _Digits(str):
    """A number in its original notation."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_int=_Digits, parse_float=_Digits, parse_constant=_Digits)
_NOWHERE: Any = object()
_encoded = json.JSONEncoder(ensure_ascii=False).encode


@lru_cache(256)
def path_of(text: str) -> Path:
    """Parse a path into its steps.

    >>> path_of("$.a[2]['b c']")
    ('a', 2, 'b c')
    """
    text = re.sub(r"^(?:lax|strict) +(?=\$)", "", text)
    if not text.startswith("$"):
        return (text,)  # of `->`
    steps: list[str | int] = []
    place = 1
    while place < len(text):
        found = _STEP.match(text, place)
        if found is None:
            raise RunError(f"{shortened(text)} is not a path of JSON", expected="$.name[0].other")
        number = found[2]
        name = next((each for each in found.groups() if each is not None), "")
        steps.append(int(number) if number is not None else name)
        place = found.end()
    return tuple(steps)


def text_of(steps: Path) -> str | None:
    """Format steps as a path; None if a name has both kinds of quotes.

    >>> print(text_of(("a", 2, "b's")))
    $["a"][2]["b's"]
    """
    written = "$"
    for step in steps:
        if isinstance(step, str) and '"' in step:
            if "'" in step:
                return None
            written += f"['{step}']"
        else:
            written += f'["{step}"]' if isinstance(step, str) else f"[{step}]"
    return written


def json_get(text: str, path: str) -> str | None:
    """Value at a path, as JSON."""
    return _json_at(text, path_of(path))


def json_text(text: str, path: str) -> str | None:
    """Value at a path, as text: a string without its quotes; JSON's null is NULL."""
    return _text_at(text, path_of(path))


def json_value(text: str, path: str) -> str | None:
    """Scalar at a path, as text; NULL for an object or an array."""
    return _value_at(text, path_of(path))


def json_query(text: str, path: str) -> str | None:
    """Object or array at a path, as JSON; NULL for a scalar."""
    return _structure_at(text, path_of(path))


def _json_at(text: str, path: Path) -> str | None:
    found = _found(text, path)
    return None if found is _NOWHERE else _written(found)


def _text_at(text: str, path: Path) -> str | None:
    found = _found(text, path)
    return None if found is _NOWHERE else _spelled(found)


def _value_at(text: str, path: Path) -> str | None:
    found = _found(text, path)
    return None if isinstance(found, dict | list) or found is _NOWHERE else _spelled(found)


def _structure_at(text: str, path: Path) -> str | None:
    found = _found(text, path)
    return _written(found) if isinstance(found, dict | list) else None


def _spelled(found: Any) -> str | None:
    if found is None:
        return None
    return str(found) if isinstance(found, str) else _written(found)


def _found(text: str, path: Path) -> Any:
    try:
        value = _decoded(text)
    except (ValueError, RecursionError):
        return _NOWHERE
    for step in path:
        if not _has(value, step):
            return _NOWHERE
        value = value[step]
    return value


def _has(value: Any, step: str | int) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and step < len(value)


@lru_cache(1)  # several values of one text are read one after the other
def _decoded(text: str) -> Any:
    plain = text.strip(" \t\n\r")
    value, end = _DECODER.raw_decode(plain)  # without the steps of decode() around it
    if end < len(plain):
        raise ValueError
    return value


def _written(value: Any) -> str:
    match value:
        case _Digits():
            return str(value)
        case dict():
            members = (f"{_written(str(name))}:{_written(each)}" for name, each in value.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
        case _:
            return _encoded(value)


JSON: dict[str, Callable[[str, str], str | None]] = {
    "json_get": json_get,
    "json_text": json_text,
    "json_value": json_value,
    "json_query": json_query,
}
JSON_AT: dict[str, Callable[..., str | None]] = {
    "json_get": _json_at,
    "json_text": _text_at,
    "json_value": _value_at,
    "json_query": _structure_at,
}
"""The same functions with a path that has been parsed into steps."""
