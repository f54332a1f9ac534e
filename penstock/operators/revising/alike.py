"""Rows that are the same to the last bit, and what differs between two sets of rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.first_rows import first_rows
from penstock.model.stable_order import stable_order


def numbers_of(columns: Iterable[pa.Array], size: int) -> Ints:
    """A number for each of so many rows, the same for rows that are alike.

    >>> numbers_of([pa.array([1.0, None, 1.0]), pa.array(["a", "a", "a"])], 3)
    array([0, 1, 0])
    """
    numbers: Ints = np.zeros(size, np.int64)
    for array in columns:
        if pa.types.is_floating(array.type):
            bits = np.asarray(array.fill_null(0.0)).view(np.int64)
            array = pa.array(bits, mask=np.asarray(array.is_null()))
        elif pa.types.is_nested(array.type):  # which Arrow does not number
            array = pa.array(map(repr, array.to_pylist()), pa.string())
        encoded = array.dictionary_encode(null_encoding="encode")
        size = len(encoded.dictionary)
        # numbered anew after every column, so that no product can overflow
        numbers = first_rows(numbers * size + np.asarray(encoded.indices))[1]
    return numbers


def apart(before: pa.RecordBatch, now: pa.RecordBatch) -> tuple[Ints, Ints]:
    """The places of rows that are only among those `before`, and of those that are only among those
    `now`; of rows alike, as many as there are more of.

    >>> before, now = pa.record_batch({"v": [1, 1, 2]}), pa.record_batch({"v": [2, 1, 3]})
    >>> apart(before, now)
    (array([1]), array([2]))
    """
    pairs = zip(before.columns, now.columns, strict=True)
    joined = (pa.concat_arrays(pair) for pair in pairs)
    numbers = numbers_of(joined, before.num_rows + now.num_rows)
    old, new = numbers[: before.num_rows], numbers[before.num_rows :]
    return _beyond(old, new), _beyond(new, old)


def _beyond(numbers: Ints, others: Ints) -> Ints:
    """The places of numbers that the others do not have, or not as often: the last of them."""
    order = stable_order(numbers)
    ordered = numbers[order]
    within = np.arange(len(ordered)) - np.searchsorted(ordered, ordered, "left")
    others = np.sort(others)
    there = np.searchsorted(others, ordered, "right") - np.searchsorted(others, ordered, "left")
    return np.sort(order[within >= there])
