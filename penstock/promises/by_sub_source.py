"""The rows of a batch sub-source by sub-source, so that all of them are computed on at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.stable_order import stable_order
from penstock.model.types import INT64_MAX, INT64_MIN

NOTHING = INT64_MIN  # a contribution that promises nothing


class BySubSource:
    """Rows in the order of their sub-sources, and of their arrival within each.

    >>> rows = BySubSource.of(np.array([7, 2, 7, 7, 2]))
    >>> rows.codes, rows.sizes, rows.sorted(np.array([10, 20, 30, 40, 50]))
    (array([2, 7]), array([2, 3]), array([20, 50, 10, 30, 40]))
    """

    def __init__(self, order: Ints, codes: Codes, begins: Ints) -> None:
        self.order = order  # the rows, sorted
        self.codes = codes  # the sub-sources, ascending
        self.begins = begins  # where each begins, in sorted order

    @cached_property
    def ends(self) -> Ints:
        return np.append(self.begins[1:], len(self.order))

    @cached_property
    def sizes(self) -> Ints:
        sizes: Ints = self.ends - self.begins
        return sizes

    @staticmethod
    def of(codes: Codes) -> BySubSource:
        order = stable_order(codes)
        ordered = codes[order]
        begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        return BySubSource(order, ordered[begins], begins)

    @staticmethod
    def one(code: int, rows: int) -> BySubSource:
        """All rows are of one sub-source."""
        return BySubSource(np.arange(rows), np.array([code]), np.zeros(1, np.int64))

    def sorted(self, values: Ints) -> Ints:
        return values if len(self.codes) == 1 else values[self.order]

    def restored(self, values: Ints) -> Ints:
        """From sorted order to that of arrival."""
        if len(self.codes) == 1:
            return values
        found = np.empty(len(values), np.int64)
        found[self.order] = values
        return found

    def spread(self, values: Ints) -> Ints:
        """What there is for each sub-source, for each of its rows."""
        return np.repeat(values, self.sizes)

    @property
    def ranks(self) -> Ints:
        """The place of each row within its sub-source."""
        return np.arange(len(self.order)) - self.spread(self.begins)

    def highest_before(self, starts: Ints, after: Ints) -> tuple[Ints, Ints]:
        """The highest of what its sub-source starts with and of what the rows before it say, for
        each row; and for each sub-source after all of its rows."""
        begins = np.zeros(len(after), np.bool_)
        begins[self.begins] = True
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[self.begins] = starts
        before = running_highest(before, begins)
        last = self.ends - 1
        return before, np.maximum(before[last], after[last])

    def next_in_each(self, values: Ints, last: Ints) -> Ints:
        """What the next row of the sub-source has; `last` for the last row of each."""
        following = np.empty_like(values)
        following[:-1] = values[1:]
        following[self.ends - 1] = last
        return following


def running_highest(values: Ints, begins: Mask) -> Ints:
    """The highest so far in each run of values; `begins` marks the first of every run.

    >>> running_highest(np.array([5, 2, 7, 1, 3]), np.array([True, False, False, True, False]))
    array([5, 5, 7, 1, 3])
    """
    runs = int(np.count_nonzero(begins))
    if runs <= 1:
        return np.maximum.accumulate(values)
    known = values[values != NOTHING] if values.min() == NOTHING else values
    lowest, highest = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if lowest > INT64_MIN + 1 and (highest - lowest + 2) * runs < INT64_MAX:
        span = highest - lowest + 2
        steps = np.where(values == NOTHING, 0, values - (lowest - 1))
        return _above_each_other(steps, begins, span, lowest - 1)
    # ranks instead of values, which are too far apart
    different, ranks = np.unique(values, return_inverse=True)
    found: Ints = different[_above_each_other(ranks, begins, len(different), None)]
    return found


def _above_each_other(steps: Ints, begins: Mask, span: int, base: int | None) -> Ints:
    """One running maximum for all: the steps of a later run are put above all that went before."""
    floors = np.cumsum(begins, dtype=np.int64)
    floors -= 1
    floors *= span
    highest = steps + floors
    np.maximum.accumulate(highest, out=highest)
    highest -= floors
    if base is None:
        return highest
    return np.where(highest == 0, NOTHING, highest + base)


def ranks_within(sizes: Ints) -> Ints:
    """
    >>> ranks_within(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    begins = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) - np.repeat(begins, sizes)
