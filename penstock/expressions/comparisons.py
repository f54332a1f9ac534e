"""Comparisons, IN, IS, and the three truth values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.node import Builder, Kernel, all_null, always, arrow
from penstock.model.plain_values import to_arrow
from penstock.model.types import BOOLEAN, Kind
from penstock.plan.expressions import Call, Literal

_EQUAL = arrow("equal")
_NOT_EQUAL = arrow("not_equal")
_IS_NULL = arrow("is_null")
_IS_VALID = arrow("is_valid")
_XOR = arrow("xor")
_OR = arrow("or_kleene")
_COALESCE = arrow("coalesce")
_IF_ELSE = arrow("if_else")
_TRUE = pa.scalar(True)
_FALSE = pa.scalar(False)
_UNKNOWN = pa.scalar(None, pa.bool_())


def _connective(name: str) -> Builder:
    kernel = arrow(f"{name}_kleene")
    return always(lambda *data: reduce(kernel, data))


def _is_distinct(_: Call, literals: Sequence[Literal | None]) -> Kernel:
    """Two NULLs are not distinct, NULL and a value are."""
    if any(literal is not None and literal.value is None for literal in literals):
        return lambda left, right: _IS_VALID(left if isinstance(left, pa.Array) else right)
    both_columns = all(literal is None for literal in literals)

    def kernel(left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar) -> pa.Array:
        differ = _NOT_EQUAL(left, right)
        if not differ.null_count:
            return differ
        return _COALESCE(differ, _XOR(_IS_NULL(left), _IS_NULL(right)) if both_columns else _TRUE)

    return kernel


def _in(call: Call, literals: Sequence[Literal | None]) -> Kernel:
    needle, *haystack = literals
    values = [literal.value for literal in haystack if literal is not None]
    if needle is not None and needle.value is None:
        return all_null(BOOLEAN)
    if needle is not None or len(values) < len(haystack) or len(values) <= 2:
        return lambda value, *others: reduce(_OR, (_EQUAL(value, other) for other in others))
    return _in_set(call, values)


def _in_set(call: Call, values: list[Any]) -> Kernel:
    sql_type = call.arguments[0].type
    known = [value for value in values if value is not None]
    if sql_type.kind is Kind.DOUBLE:
        known = _as_compared(known)
    is_in = arrow("is_in", pc.SetLookupOptions(to_arrow(known, sql_type), skip_nulls=True))
    otherwise = _FALSE if None not in values else _UNKNOWN

    def kernel(needles: pa.Array, *_: pa.Scalar) -> pa.Array:
        found = is_in(needles)
        if otherwise is _UNKNOWN:
            return _IF_ELSE(found, _TRUE, _UNKNOWN)
        return _IF_ELSE(_IS_VALID(needles), found, _UNKNOWN) if needles.null_count else found

    return kernel


def _as_compared(values: list[float]) -> list[float]:
    """Arrow's sets find NaN and tell the zeros apart; comparisons do neither."""
    zeros = [0.0, -0.0] if 0.0 in values else []
    return [*zeros, *(value for value in values if value and not math.isnan(value))]


COMPARISONS: dict[str, Builder] = {
    "eq": always(_EQUAL),
    "ne": always(_NOT_EQUAL),
    "lt": always(arrow("less")),
    "le": always(arrow("less_equal")),
    "gt": always(arrow("greater")),
    "ge": always(arrow("greater_equal")),
    "not": always(arrow("invert")),
}
# These see NULL literals too, and say themselves what they mean.
WITH_NULLS: dict[str, Builder] = {
    "and": _connective("and"),
    "or": _connective("or"),
    "in": _in,
    "is_null": always(_IS_NULL),
    "is_distinct": _is_distinct,
}
