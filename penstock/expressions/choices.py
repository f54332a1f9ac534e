"""CASE, which leaves alone the branches it does not take, and the functions that pick a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import (
    as_int64,
    flags_of,
    present,
    true_only,
    values_of,
)
from penstock.expressions.node import FAILURES, Builder, Compiled, always, arrow
from penstock.model.arrays import Floats, Ints, Mask
from penstock.model.types import DOUBLE, Kind, Type

Value: TypeAlias = Compiled | pa.Scalar

_IF_ELSE = arrow("if_else")
_COALESCE = arrow("coalesce")
_EQUAL = arrow("equal")


def choose(
    branches: Sequence[tuple[Compiled, Value]], otherwise: Value, sql_type: Type
) -> Compiled:
    """CASE over the nodes of its conditions and values.

    All of them are run on the whole batch, which costs least.  Should one fail, each is run again
    on just those rows that come to it, and from then on so is every batch: data that did it once
    will do it again.
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


# --- greatest and least, NULLs aside -------------------------------------------------------------


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
    """The values, and where they are not NULL."""
    if isinstance(datum, pa.Scalar):
        return np.asarray(datum.as_py(), np.float64), np.asarray(datum.is_valid)
    known = present(datum) if datum.null_count else np.asarray(True)
    return values_of(datum, DOUBLE), known


# NaN is larger than every number; of equals, which −0.0 and 0.0 are, the first stays.
def _is_greater(one: Floats, other: Floats) -> Mask:
    return ~(one <= other) & ~np.isnan(other)


def _is_less(one: Floats, other: Floats) -> Mask:
    return ~(one >= other) & ~np.isnan(one)


# These see NULL literals too.
CHOICES: dict[str, Builder] = {
    "coalesce": always(_COALESCE),
    "nullif": always(_nullif),
    "greatest": _extreme("max_element_wise", _is_greater),
    "least": _extreme("min_element_wise", _is_less),
}
