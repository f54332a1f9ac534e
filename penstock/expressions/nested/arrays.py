"""Functions that make ARRAYs of others: the items of a whole column are picked at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import column_of, flags_of, present
from penstock.expressions.nested.nested import bounds_of, gathered, items_of, listed
from penstock.expressions.node import Builder, Kernel, always, arrow, length
from penstock.model.arrays import Ints
from penstock.model.types import BIGINT, Kind
from penstock.plan.expressions import Call, Literal

_FAR = 2**31  # more items than an ARRAY has
_EQUAL = arrow("equal")


def _full(data: Sequence[pa.Array | pa.Scalar]) -> list[pa.Array]:
    count = length(data)
    return [each if isinstance(each, pa.Array) else pa.repeat(each, count) for each in data]


def _concat(*data: pa.Array | pa.Scalar) -> pa.Array:
    columns = _full(data)
    parts = [gathered(each) for each in columns]
    rows = np.concatenate([each for _, each in parts])
    items = pa.concat_arrays([each for each, _ in parts])
    in_rows = np.argsort(rows, kind="stable")
    sizes = np.bincount(rows, minlength=len(columns[0]))
    if any(each.null_count for each in columns):  # of which nothing comes
        whole = np.logical_and.reduce([present(each) for each in columns])
        in_rows = in_rows[whole[rows[in_rows]]]
        sizes = np.where(whole, sizes, 0)
    return listed(items.take(pa.array(in_rows)), sizes, *columns)


def _picked(lists: pa.Array, begin: Ints, sizes: Ints, step: int = 1) -> pa.Array:
    """Items of the column, from a place in it on, so many for each row."""
    ends = np.cumsum(sizes)
    within = np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes)
    places = np.repeat(begin, sizes) + step * within
    return listed(items_of(lists).take(pa.array(places)), sizes, lists)


def _reverse(lists: pa.Array) -> pa.Array:
    begins, sizes = bounds_of(lists)
    return _picked(lists, begins + sizes - 1, sizes, -1)


def _slice(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    lists, first, last = literals
    if lists is not None or first is None or last is None:
        return None
    begin, end = (max(-_FAR, min(int(each.value), _FAR)) for each in (first, last))

    def kernel(lists: pa.Array, *_: pa.Scalar) -> pa.Array:
        begins, sizes = bounds_of(lists)
        low = np.clip(sizes + begin if begin < 0 else begin - 1, 0, sizes)
        high = np.clip(sizes + end + 1 if end < 0 else end, low, sizes)
        return _picked(lists, begins + low, high - low)

    return kernel


def _distinct(lists: pa.Array) -> pa.Array:
    items, rows = gathered(lists)
    codes = _codes(items)
    _, firsts = np.unique(rows * (len(items) + 2) + codes, return_index=True)
    kept = np.sort(firsts)
    sizes = np.bincount(rows[kept], minlength=len(lists))
    return listed(items.take(pa.array(kept)), sizes, lists)


def _codes(items: pa.Array) -> Ints:
    """Numbers of values, NULL among them; all NaNs are one, and −0.0 is 0.0."""
    if pa.types.is_floating(items.type):
        items = pc.add(items, 0.0)
        items = pc.if_else(pc.is_nan(items), float("nan"), items)
    encoded = items.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.fill_null(len(items))).astype(np.int64)


def _extreme(largest: bool) -> Kernel:
    def kernel(lists: pa.Array) -> pa.Array:
        items, rows = gathered(lists)
        known = np.flatnonzero(present(items))
        items, rows = items.take(pa.array(known)), rows[known]
        keys = {"row": pa.array(rows), "item": items}
        if pa.types.is_floating(items.type):  # −0.0 comes before 0.0
            keys["sign"] = pa.array(~np.signbit(items.to_numpy(zero_copy_only=False)))
        order = pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])
        sizes = np.bincount(rows, minlength=len(lists))
        ends = np.cumsum(sizes)
        begins = ends - sizes
        places = ends - 1 if largest else begins
        return items.take(order.take(pa.array(places, mask=begins == ends)))

    return kernel


def _position(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    if call.arguments[1].type.kind is Kind.DOUBLE or literals[0] is not None:
        return None  # NaN is one of them, for Arrow it is not

    def kernel(lists: pa.Array, wanted: pa.Array | pa.Scalar) -> pa.Array:
        items, rows = gathered(lists)
        beside = wanted if isinstance(wanted, pa.Scalar) else wanted.take(pa.array(rows))
        found = np.flatnonzero(flags_of(_EQUAL(items, beside)))
        in_rows, firsts = np.unique(rows[found], return_index=True)
        begins = np.searchsorted(rows, in_rows)
        places = np.zeros(len(lists), np.int64)
        places[in_rows] = found[firsts] - begins + 1
        inputs = [each for each in (lists, wanted) if isinstance(each, pa.Array)]
        return column_of(places, BIGINT, *inputs)

    return kernel


ARRAY_FUNCTIONS: dict[str, Builder] = {
    "array_concat": always(_concat),
    "array_reverse": always(_reverse),
    "array_slice": _slice,
    "array_distinct": always(_distinct),
    "array_max": always(_extreme(largest=True)),
    "array_min": always(_extreme(largest=False)),
    "array_position": _position,
}
