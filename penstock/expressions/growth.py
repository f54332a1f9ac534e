"""Bounds on the sizes of function values, from their arguments: functions that make large values
of small ones are checked before they are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.functions.regular_expressions import at_most_replaced
from penstock.model.types import Type
from penstock.model.value_limits import ITEM, bytes_of, check_row, max_row, max_value, size_of
from penstock.plan.expressions import Call, Expression, walk


def _sum(given: Sequence[Any], types: Sequence[Type]) -> int:
    return sum(size_of(value, each) for value, each in zip(given, types, strict=True))


def _replaced(given: Sequence[Any], _: Sequence[Type]) -> int:
    text, old, new = given
    count: int = text.count(old) if old else 0
    return bytes_of(text) + count * (bytes_of(new) - bytes_of(old))


def _repeated(given: Sequence[Any], _: Sequence[Type]) -> int:
    return bytes_of(given[0]) * max(0, int(given[1]))


def _matched(given: Sequence[Any], _: Sequence[Type]) -> int:
    """Estimate for matches. They are rarely as large as they could be, so the result is checked as
    well.
    """
    return int(at_most_replaced(pa.array([given[0]]), *given[1:])[0]) // 8


def _joined(given: Sequence[Any], types: Sequence[Type]) -> int:
    return size_of(given[0], types[0]) + len(given[0]) * bytes_of(given[1])


def _split(given: Sequence[Any], _: Sequence[Type]) -> int:
    text, separator = given
    return bytes_of(text) + (ITEM * (text.count(separator) + 1) if separator else 0)


AT_MOST: dict[str, Callable[[Sequence[Any], Sequence[Type]], int]] = {
    "concat": _sum,
    "array_concat": _sum,
    "replace": _replaced,
    "repeat": _repeated,
    "regexp_replace": _matched,
    "array_join": _joined,
    "string_split": _split,
}
# Values at most a few times as large as their arguments are checked after they are computed.
GROWING = {"regexp_replace", "translate", "upper", "lower", "to_base64", "date_format"}
GROWING |= {"json_get", "json_text", "json_query"}
_GROWS = {*AT_MOST, *GROWING, "array", "map", "struct"}


def may_grow(expression: Expression) -> bool:
    """Whether the value may be larger than its inputs."""
    return any(isinstance(each, Call) and grows(each) for each in walk(expression))


def grows(call: Call) -> bool:
    return call.user is None and call.function in _GROWS


def row_sizes(
    expressions: Sequence[Expression],
) -> Callable[[Sequence[Any]], None] | None:
    """Check of the size of a row of values; None if too few of them may grow for the row to be too
    large.
    """
    grown = [(place, each.type) for place, each in enumerate(expressions) if may_grow(each)]
    if len(grown) <= max_row() // max_value():
        return None
    return lambda values: check_row(sum(size_of(values[place], each) for place, each in grown))
