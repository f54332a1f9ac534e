"""Which of many whole numbers differ, found without sorting them.

Every number has a place in a table, where the first row with it is written down: its own place if
the numbers lie close together, and one by its hash otherwise.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.stable_order import stable_order

_FEW = 64  # numbers that are sorted as soon as they are written down
_SPAN = 4096  # of a table that is always allowed
_SPARSE = 8  # how many places a longer table may have for each number
_TURNS = 16  # after which values that share their hashes with many others are sorted
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def first_rows(values: Ints) -> tuple[Ints, Ints]:
    """The rows whose values are none of those before, and for each row the number of its value
    among them.

    >>> first_rows(np.array([7, 5, 7, 4]))
    (array([0, 1, 3]), array([0, 1, 0, 2]))
    """
    first = _first_of_each(values)
    rows = np.flatnonzero(first == np.arange(len(first)))
    numbers = np.empty(len(values), np.int64)
    numbers[rows] = np.arange(len(rows))
    return rows, numbers[first]


def different(values: Ints) -> Ints:
    """Every number once, in their order.

    >>> different(np.array([7, 5, 7, 4]))
    array([4, 5, 7])
    """
    if len(values) <= _FEW:
        return np.unique(values)
    lowest, span = _span(values)
    if span > max(_SPAN, _SPARSE * len(values)):
        found = values[first_rows(values)[0]]
        found.sort()
        return found
    there = np.zeros(span, np.bool_)
    there[values - lowest if lowest else values] = True
    places: Ints = np.flatnonzero(there)
    return places + lowest if lowest else places


def _first_of_each(values: Ints) -> Ints:
    """For each row the first one with its value."""
    if len(values) <= _FEW:
        return _by_sorting(values)
    lowest, span = _span(values)
    if span > max(_SPAN, _SPARSE * len(values)):
        return _by_hash(values)
    places = values - lowest if lowest else values
    table = np.full(span, len(values))
    np.minimum.at(table, places, np.arange(len(values)))
    first: Ints = table[places]
    return first


def _by_sorting(values: Ints) -> Ints:
    order = stable_order(values)
    begins = np.flatnonzero(np.append(True, np.diff(values[order]) != 0)[: len(values)])
    first = np.empty(len(values), np.int64)
    first[order] = np.repeat(order[begins], np.diff(np.append(begins, len(values))))
    return first


def _by_hash(values: Ints) -> Ints:
    """Of the values that share a place in the table, one is done in each turn."""
    bits = len(values).bit_length() + 1
    places = ((values.view(np.uint64) * _FACTOR) >> np.uint64(64 - bits)).view(np.int64)
    table = np.full(1 << bits, len(values))
    first = np.empty(len(values), np.int64)
    rows = np.arange(len(values))
    left = values
    for _ in range(_TURNS):
        np.minimum.at(table, places, rows)
        owners = table[places]
        theirs = values[owners] == left
        done = np.flatnonzero(theirs)
        first[rows[done]] = owners[done]
        if len(done) == len(rows):
            return first
        others = np.flatnonzero(~theirs)
        table[places] = len(values)
        rows, places, left = rows[others], places[others], left[others]
    first[rows] = rows[_by_sorting(left)]
    return first


def _span(values: Ints) -> tuple[int, int]:
    """The lowest of some numbers, and how many there are from there to the highest."""
    lowest, highest = int(values.min()), int(values.max())
    if 0 <= lowest < highest:  # most often codes, from 0 on: not worth moving them
        lowest = lowest if lowest > (highest >> 1) else 0
    return lowest, highest - lowest + 1
