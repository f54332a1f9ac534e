"""Kernels on ARRAYs, STRUCTs and MAPs: their parts are columns of their own, which are cut and
joined without handling single rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.columns import (
    Builder,
    Kernel,
    always,
    arrow,
    bitmap,
    column_of,
    flags_of,
    ints_of,
    length,
    present,
)
from penstock.model.arrays import Ints
from penstock.model.types import BIGINT, Kind, array_of
from penstock.plan.expressions import Call, Literal

_INT32 = np.dtype(np.int32)


def bounds_of(lists: pa.Array) -> tuple[Ints, Ints]:
    """Begins and numbers of the items of each ARRAY or MAP; NULL has none."""
    count = len(lists)
    if not count:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ends = np.frombuffer(lists.buffers()[1], _INT32, count + 1, lists.offset * 4).astype(np.int64)
    sizes = np.diff(ends)
    return ends[:-1], np.where(present(lists), sizes, 0) if lists.null_count else sizes


def items_of(lists: pa.Array) -> pa.Array:
    """Column of all items, in which `bounds_of` counts."""
    return lists.values


def gathered(lists: pa.Array) -> tuple[pa.Array, Ints]:
    """All items, one row after the other, and the row of each."""
    begins, sizes = bounds_of(lists)
    rows = np.repeat(np.arange(len(lists)), sizes)
    ends = np.cumsum(sizes)
    places = np.arange(len(rows)) + np.repeat(begins - (ends - sizes), sizes)
    return items_of(lists).take(pa.array(places)), rows


# --- parts ---------------------------------------------------------------------------------------


def _element(lists: pa.Array | pa.Scalar, place: pa.Array | pa.Scalar) -> pa.Array:
    if isinstance(lists, pa.Scalar):
        lists = pa.repeat(lists, length([place]))
    begins, sizes = bounds_of(lists)
    wanted = ints_of(place, BIGINT)
    at = np.where(wanted > 0, wanted - 1, sizes + wanted)
    there = (wanted != 0) & (at >= 0) & (at < sizes)
    if isinstance(place, pa.Array) and place.null_count:
        there = there & present(place)
    places = pa.array(np.where(there, begins + at, 0), mask=~there)
    return items_of(lists).take(places)


def _map_value(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    key = literals[1]
    if literals[0] is not None or key is None:
        return None

    def kernel(maps: pa.Array, wanted: pa.Scalar) -> pa.Array:
        return pc.map_lookup(maps, wanted, "last")

    return kernel


def _struct_field(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    place = literals[1]
    if place is None:
        return None
    return lambda structs, _: pc.struct_field(structs, [int(place.value)])


def _cardinality(lists: pa.Array) -> pa.Array:
    return column_of(bounds_of(lists)[1], BIGINT, lists)


def _map_part(keys: bool) -> Kernel:
    def kernel(maps: pa.Array) -> pa.Array:
        entries, rows = gathered(maps)
        part = pc.struct_field(entries, [0 if keys else 1])
        return listed(part, np.bincount(rows, minlength=len(maps)), maps)

    return kernel


def listed(items: pa.Array, sizes: Ints, *inputs: pa.Array) -> pa.Array:
    """Make ARRAYs of so many items each, NULL where an input is."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    with_nulls = [present(each) for each in inputs if each.null_count]
    valid = bitmap(np.logical_and.reduce(with_nulls)) if with_nulls else None
    wanted = pa.list_(pa.field("element", items.type))
    buffers = [valid, pa.py_buffer(ends)]
    return pa.Array.from_buffers(wanted, len(sizes), buffers, children=[items])


def _array_contains(call: Call, _: Sequence[Literal | None]) -> Kernel | None:
    if call.arguments[1].type.kind is Kind.DOUBLE:  # NaN is one of them, for Arrow it is not
        return None
    equal = arrow("equal")

    def kernel(lists: pa.Array | pa.Scalar, wanted: pa.Array | pa.Scalar) -> pa.Array:
        count = length([lists, wanted])
        if isinstance(lists, pa.Scalar):
            lists = pa.repeat(lists, count)
        items, rows = gathered(lists)
        beside = wanted if isinstance(wanted, pa.Scalar) else wanted.take(pa.array(rows))
        found = np.bincount(rows, weights=flags_of(equal(items, beside)), minlength=count) > 0
        unknown = np.bincount(rows, weights=~present(items), minlength=count) > 0
        valid = (found | ~unknown) & present(lists)
        if isinstance(wanted, pa.Array):
            valid &= present(wanted)
        return pa.array(found, mask=~valid)

    return kernel


def _string_split(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    texts, separator = literals
    if texts is not None or separator is None or not separator.value:
        return None
    split = arrow("split_pattern", pc.SplitPatternOptions(separator.value))

    def kernel(column: pa.Array, _: pa.Scalar) -> pa.Array:
        pieces, rows = gathered(split(column))
        return listed(pieces, np.bincount(rows, minlength=len(column)), column)

    return kernel


def _array_join(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    if literals[0] is not None:
        return None

    def kernel(lists: pa.Array, separator: pa.Array | pa.Scalar) -> pa.Array:
        items, rows = gathered(lists)
        known = present(items)
        sizes = np.bincount(rows[known], minlength=len(lists))
        return pc.binary_join(listed(items.filter(pa.array(known)), sizes, lists), separator)

    return kernel


# --- put together --------------------------------------------------------------------------------


def _array(call: Call, _: Sequence[Literal | None]) -> Kernel:
    item = call.type.item.arrow

    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        count, width = length(data), len(data)
        columns = [each if isinstance(each, pa.Array) else pa.repeat(each, count) for each in data]
        places = np.arange(count * width).reshape(width, count).T.ravel()
        items = pa.concat_arrays([each.cast(item) for each in columns]).take(pa.array(places))
        return listed(items, np.full(count, width))

    return kernel


def _map(call: Call, literals: Sequence[Literal | None]) -> Kernel:
    (_, key), (_, value) = call.type.parts
    keys, values = (_array(replace(call, type=array_of(part)), literals) for part in (key, value))

    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        count = length(data)
        columns = [each if isinstance(each, pa.Array) else pa.repeat(each, count) for each in data]
        known = keys(*columns[::2])
        if known.values.null_count:
            raise RunError("NULL cannot be the key of a MAP")
        made = pa.MapArray.from_arrays(known.offsets, known.values, values(*columns[1::2]).values)
        return made.cast(call.type.arrow)

    return kernel


NESTED: dict[str, Builder] = {
    "element": always(_element),
    "map_value": _map_value,
    "struct_field": _struct_field,
    "cardinality": always(_cardinality),
    "array_contains": _array_contains,
    "map_keys": always(_map_part(keys=True)),
    "map_values": always(_map_part(keys=False)),
    "string_split": _string_split,
    "array_join": _array_join,
}


def _struct(call: Call, _: Sequence[Literal | None]) -> Kernel:
    wanted = call.type.arrow

    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        count = length(data)
        columns = [each if isinstance(each, pa.Array) else pa.repeat(each, count) for each in data]
        parts = [each.cast(field.type) for each, field in zip(columns, wanted, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(wanted))

    return kernel


# Constructors, which may contain NULLs.
ARRAYS: dict[str, Builder] = {"array": _array, "map": _map, "struct": _struct}


# Functions from ARRAYs to ARRAYs or items: the items of a whole column are selected at once.

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
    """Select items of the column, from a place in it on, so many for each row."""
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
    """Number values, NULL among them; all NaNs are one, and −0.0 is 0.0."""
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
        return None  # NaN equals NaN here, but not for Arrow

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
