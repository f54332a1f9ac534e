"""Where sub-sources join that nobody knew of, many of them at once.

A newcomer joins at the low-watermark of its moment.  Let R be what a sub-source has promised by its
own tuples alone, without the place where it joined.  Whoever is there at a moment has a bound that
is the higher one of R and of the watermark before.  So the watermark of a moment is the higher one
of the watermark of the moment before and of the lowest R, which no newcomer's place changes: all of
them follow from one running maximum.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Ints, Mask
from penstock.promises.by_sub_source import NOTHING, BySubSource
from penstock.promises.lowest import NOBODY


def joined_in(
    rows: BySubSource, new: Mask, starts: Ints, after: Ints, others: int | None, low: int
) -> Ints:
    """Where those of the sub-sources of a batch join that are `new`.

    `starts` is R before the batch, `after` is R after each row, in sorted order; `others` is the
    lowest bound of the sub-sources that have no rows, None if nobody is known; `low` is the
    watermark so far."""
    first = rows.order[rows.begins]
    joins = np.zeros(len(rows.order), np.int64)
    joins[first[new]] = 1
    count = int(np.count_nonzero(new))
    come = np.cumsum(joins)[rows.order]  # how many have come up to each row, itself included
    gone = rows.next_in_each(come, np.full(len(rows.codes), count))
    known = ~new
    begins = np.concatenate([np.zeros(int(np.count_nonzero(known)), np.int64), come])
    ends = np.concatenate([come[rows.begins[known]], gone])
    lowest = lowest_over(begins, ends, np.concatenate([starts[known], after]), count)
    joined = watermarks(lowest, others, low)
    places: Ints = joined[come[rows.begins[new]] - 1]
    return places


def watermarks(lowest: Ints, others: int | None, low: int) -> Ints:
    """The low-watermark at some moments, from the lowest R of the sub-sources that move."""
    if others is None:  # nobody is waited for when the first one comes
        lowest[0] = NOTHING
    else:
        lowest = np.minimum(lowest, others)
    return np.maximum.accumulate(np.maximum(lowest, low))


def lowest_over(begins: Ints, ends: Ints, values: Ints, size: int) -> Ints:
    """For each place below `size`, the lowest value of the ranges, from begin up to end, that it is
    in; NOBODY if it is in none.

    >>> lowest_over(np.array([0, 2, 1]), np.array([3, 4, 1]), np.array([7, 5, 0]), 5)
    array([                  7,                   7,                   5,
                             5, 9223372036854775807])
    """
    rows = np.flatnonzero(begins < ends)
    begins, ends, values = begins[rows], ends[rows], values[rows]
    # a range is two, perhaps overlapping, of the longest power of two that fits in
    levels = np.frexp((ends - begins).astype(np.float64))[1] - 1
    lowest = np.full(size, NOBODY)
    for level in range(int(levels.max(initial=0)), -1, -1):
        length = 1 << level
        own = levels == level
        np.minimum.at(lowest, begins[own], values[own])
        np.minimum.at(lowest, ends[own] - length, values[own])
        if level:  # each is two of half the length
            half = length >> 1
            halves = lowest.copy()
            halves[half:] = np.minimum(lowest[half:], lowest[: size - half])
            lowest = halves
    return lowest
