"""Columns as integers that have the same order, whatever their type and direction."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.arrays import Ints, Mask
from penstock.model.types import INT64_MAX, INT64_MIN


def sort_numbers(
    column: pa.Array, descending: bool = False, nulls_first: bool = False, exact: bool = False
) -> Ints:
    """A number for each value: the lower, the sooner it comes.  NaN is above all numbers.  Zeros
    are one value, unless they are told apart (`exact`).

    >>> sort_numbers(pa.array([2.5, None, -1.0]), descending=True, nulls_first=True).argsort()
    array([1, 0, 2])
    """
    numbers = _numbers(column, exact)
    if descending:
        numbers = ~numbers
    if column.null_count:
        absent = np.asarray(column.is_null())
        numbers = _beyond(numbers, absent, nulls_first)
    return numbers


def _beyond(numbers: Ints, absent: Mask, first: bool) -> Ints:
    """The numbers, and one before or behind all of them for what is absent."""
    present = numbers[~absent]
    if not len(present):
        return np.zeros(len(numbers), np.int64)
    low, high = int(present.min()), int(present.max())
    if low == INT64_MIN or high == INT64_MAX:  # there is nothing beyond them
        different, places = np.unique(numbers, return_inverse=True)
        numbers, low, high = places.astype(np.int64), 0, len(different) - 1
    return np.where(absent, low - 1 if first else high + 1, numbers)


def _numbers(column: pa.Array, exact: bool) -> Ints:
    kind = column.type
    if pa.types.is_floating(kind):
        doubles = np.asarray(pc.fill_null(column, 0.0), dtype=np.float64)
        doubles = np.where(np.isnan(doubles), np.nan, doubles if exact else doubles + 0.0)
        bits = doubles.view(np.int64)
        return np.where(bits < 0, bits ^ INT64_MAX, bits)
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(column, False).cast(pa.int8())).astype(np.int64)
    if pa.types.is_integer(kind):
        return np.asarray(pc.fill_null(column, 0)).astype(np.int64)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return np.asarray(pc.fill_null(column.cast(pa.int64()), 0)).astype(np.int64)
    if pa.types.is_date32(kind):
        return np.asarray(pc.fill_null(column.cast(pa.int32()), 0)).astype(np.int64)
    ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(ranks).astype(np.int64)
