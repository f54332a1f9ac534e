"""Limits on the sizes of values that a query computes: of a text, an ARRAY, STRUCT or MAP, and of
a row.

Sizes are bytes: of a text, those in UTF-8; of a collection, 8 for every item plus the sizes of its
texts and collections. The limit is that of the process, and of the Python workers of Spark.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from penstock.errors import EngineError, RunError
from penstock.model.types import Kind, Type

VARIABLE = "PENSTOCK_MAX_VALUE"  # the environment variable
_USUAL = 16_000_000
ITEM = 8


def _of_environment() -> int:
    text = os.environ.get(VARIABLE, "").replace("_", "") or str(_USUAL)
    if not text.isdecimal() or not int(text):
        raise EngineError(
            f"{VARIABLE} is {text!r}", expected="a number of bytes", hint=f"{VARIABLE}={_USUAL}"
        )
    return int(text)


class _Limits:
    def __init__(self) -> None:
        self.value = 0  # bytes; not read yet


_limits = _Limits()


def max_value() -> int:
    """Maximum size of a computed value, in bytes."""
    if not _limits.value:
        _limits.value = _of_environment()
    return _limits.value


def max_row() -> int:
    """Maximum size of all columns of a row, and of everything computed at once for one row, in
    bytes.
    """
    return 4 * max_value()


def max_at_once() -> int:
    """Maximum size of what an expression computes for several rows at once, in bytes."""
    return 16 * max_value()


def max_column() -> int:
    """Maximum size of the values of one column in one batch, in bytes; Arrow can hold 2 GB."""
    return min(32 * max_value(), 2**30)


def set_max_value(size: int) -> None:
    """Set the limit, for tests; 0 goes back to that of the environment."""
    _limits.value = size


def too_large_value(size: int) -> RunError:
    return RunError(
        f"a value of {size:,} bytes is computed",
        expected=f"up to {max_value():,}",
        hint=f"the environment variable {VARIABLE}",
    )


def too_large_row(size: int) -> RunError:
    return RunError(
        f"a row of {size:,} bytes is computed",
        expected=f"up to {max_row():,}",
        hint=f"the environment variable {VARIABLE}, of which it is four times",
    )


def check_row(size: int) -> None:
    if size > max_row():
        raise too_large_row(size)


def check_size(size: int) -> None:
    if size > max_value():
        raise too_large_value(size)


def check_together(size: int) -> None:
    """Check the size of the values of a column that are in memory together."""
    if size > max_column():
        raise RunError(
            f"the values of one column take {size:,} bytes in one batch",
            expected=f"up to {max_column():,}",
            hint="smaller values, or fewer rows at once",
        )


def bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def size_of(value: Any, sql_type: Type) -> int:
    """
    >>> from penstock.model.types import STRING, array_of
    >>> size_of("añb", STRING), size_of(("añb", None), array_of(STRING))
    (4, 20)
    """
    if value is None:
        return 0
    match sql_type.kind:
        case Kind.STRING:
            return bytes_of(value)
        case Kind.BINARY:
            return len(value)
        case Kind.ARRAY:
            return size_of_items(value, [sql_type.item] * len(value))
        case Kind.STRUCT:
            return size_of_items(value, [part for _, part in sql_type.parts])
        case Kind.MAP:
            types = [part for _, part in sql_type.parts]
            return sum(size_of_items(pair, types) for pair in value)
        case _:
            return 0


def size_of_items(values: Sequence[Any], types: Sequence[Type]) -> int:
    """Size of a collection with these items."""
    return sum(ITEM + size_of(value, each) for value, each in zip(values, types, strict=True))
