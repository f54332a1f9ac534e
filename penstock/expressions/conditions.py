"""Conditions on whole columns: comparisons, IN, IS and three-valued logic; CASE, and the functions
that choose a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import (
    FAILURES,
    Builder,
    Compiled,
    Kernel,
    all_null,
    always,
    arrow,
    as_int64,
    flags_of,
    present,
    true_only,
    values_of,
)
from penstock.model.arrays import Floats, Ints, Mask
from penstock.model.types import BOOLEAN, DOUBLE, Kind, Type
from penstock.model.values import to_arrow
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
    """Kernel of IS DISTINCT FROM: two NULLs are not distinct, NULL and a value are."""
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
    """Adapt the values of an IN list: Arrow's sets find NaN and tell the zeros apart; comparisons
    do neither.
    """
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
# These get NULL literals, too, and define the result for NULL themselves.
WITH_NULLS: dict[str, Builder] = {
    "and": _connective("and"),
    "or": _connective("or"),
    "in": _in,
    "is_null": always(_IS_NULL),
    "is_distinct": _is_distinct,
}


# CASE, which evaluates only the branches it takes, and the functions that choose a value.

Value: TypeAlias = Compiled | pa.Scalar


def choose(
    branches: Sequence[tuple[Compiled, Value]], otherwise: Value, sql_type: Type
) -> Compiled:
    """CASE over the compiled conditions and values.

    All of them are run on the whole batch, which costs least. If one fails, each is run again only
    on the rows that reach it, and so is every later batch: such data is likely to come again.
    """
    careful = False

    def node(batch: pa.RecordBatch) -> pa.Array:
        nonlocal careful
        if not careful:
            try:
                return _choose_whole(branches, otherwise, batch)
            except FAILURES:
                careful = True
        return _choose_by_need(branches, otherwise, sql_type, batch)

    return node


def _choose_whole(
    branches: Sequence[tuple[Compiled, Value]], otherwise: Value, batch: pa.RecordBatch
) -> pa.Array:
    flags = [true_only(condition(batch)) for condition, _ in branches]
    chosen = _run(otherwise, batch)
    for flag, (_, value) in zip(reversed(flags), reversed(branches), strict=True):
        chosen = _IF_ELSE(flag, _run(value, batch), chosen)
    return chosen


def _run(value: Value, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
    return value if isinstance(value, pa.Scalar) else value(batch)


def _choose_by_need(
    branches: Sequence[tuple[Compiled, Value]],
    otherwise: Value,
    sql_type: Type,
    batch: pa.RecordBatch,
) -> pa.Array:
    pieces = [pa.nulls(0, sql_type.arrow)]
    places = [np.empty(0, np.int64)]

    def put(value: Value, part: pa.RecordBatch, rows: Ints) -> None:
        values = _run(value, part)
        pieces.append(pa.repeat(values, len(rows)) if isinstance(values, pa.Scalar) else values)
        places.append(rows)

    left, left_rows = batch, np.arange(batch.num_rows)
    for condition, value in branches:
        taken = flags_of(condition(left))
        if taken.any():
            put(value, left.filter(pa.array(taken)), left_rows[taken])
            left, left_rows = left.filter(pa.array(~taken)), left_rows[~taken]
        if not len(left_rows):
            break
    else:
        put(otherwise, left, left_rows)
    order = np.empty(batch.num_rows, np.int64)
    order[np.concatenate(places)] = np.arange(batch.num_rows)
    return pa.concat_arrays(pieces).take(pa.array(order))


def _nullif(left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar) -> pa.Array:
    return _IF_ELSE(true_only(_EQUAL(left, right)), pa.scalar(None, left.type), left)


# --- greatest and least, which ignore NULLs ------------------------------------------------------


def _extreme(element_wise: str, is_better: Callable[[Floats, Floats], Mask]) -> Builder:
    native = arrow(element_wise, pc.ElementWiseAggregateOptions(skip_nulls=True))

    def of_times(*data: pa.Array | pa.Scalar) -> pa.Array:
        return native(*map(as_int64, data)).view(data[0].type)

    def of_flags(*data: pa.Array | pa.Scalar) -> pa.Array:
        return native(*(each.cast(pa.int8()) for each in data)).cast(pa.bool_())

    @np.errstate(invalid="ignore")
    def of_doubles(*data: pa.Array | pa.Scalar) -> pa.Array:
        best, known = _doubles(data[0])
        for other, other_known in map(_doubles, data[1:]):
            takes_over = (is_better(other, best) | ~known) & other_known
            best, known = np.where(takes_over, other, best), known | other_known
        return pa.array(best, mask=None if known.all() else ~known)

    kernels = {
        Kind.TIMESTAMP: of_times,
        Kind.INTERVAL: of_times,
        Kind.BOOLEAN: of_flags,
        Kind.DOUBLE: of_doubles,
    }
    return lambda call, _: kernels.get(call.type.kind, native)


def _doubles(datum: pa.Array | pa.Scalar) -> tuple[Floats, Mask]:
    """Values, and mask of those that are not NULL."""
    if isinstance(datum, pa.Scalar):
        return np.asarray(datum.as_py(), np.float64), np.asarray(datum.is_valid)
    known = present(datum) if datum.null_count else np.asarray(True)
    return values_of(datum, DOUBLE), known


# NaN is larger than every number; of equals, which −0.0 and 0.0 are, the first stays.
def _is_greater(one: Floats, other: Floats) -> Mask:
    return ~(one <= other) & ~np.isnan(other)


def _is_less(one: Floats, other: Floats) -> Mask:
    return ~(one >= other) & ~np.isnan(one)


# These get NULL literals, too.
CHOICES: dict[str, Builder] = {
    "coalesce": always(_COALESCE),
    "nullif": always(_nullif),
    "greatest": _extreme("max_element_wise", _is_greater),
    "least": _extreme("min_element_wise", _is_less),
}
