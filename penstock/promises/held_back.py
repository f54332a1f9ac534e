"""SLACK: the last tuples of every sub-source, which promise nothing yet."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.operators.folding.scatter import grown
from penstock.promises.by_sub_source import NOTHING, ranks_within


class HeldBack:
    """A ring for each sub-source in one array: tuple n is in slot n modulo the capacity.  A ring
    grows until it holds as many as SLACK says; its former, smaller places are not used again."""

    def __init__(self, slack: int) -> None:
        self.slack = slack
        self._ticks: Ints = np.zeros(0, np.int64)
        self._used = 0  # of those
        self._counts: Ints = np.zeros(0, np.int64)  # tuples of each sub-source so far
        self._begins: Ints = np.zeros(0, np.int64)  # of its ring
        self._capacities: Ints = np.zeros(0, np.int64)

    def counts(self, codes: Codes) -> Ints:
        """How many tuples are held back of each of some sub-sources."""
        self._reserve(codes)
        return np.minimum(self._counts[codes], self.slack)

    def of(self, codes: Codes) -> tuple[Ints, Ints]:
        """How many, and all of them, in the order of arrival within each."""
        sizes = self.counts(codes)
        numbers = np.repeat(self._counts[codes] - sizes, sizes) + ranks_within(sizes)
        return sizes, self._ticks[self._slots(np.repeat(codes, sizes), numbers)]

    def released(self, codes: Codes, sizes: Ints, ticks: Ints) -> Ints:
        """Hold back tuples, `sizes` of each sub-source; for each the tick that it releases, NOTHING
        if it does not."""
        if self.slack == 0:
            return ticks
        self._reserve(codes)
        if len(ticks) == len(codes) == 1:
            return np.array([self._released_by_one(int(codes[0]), int(ticks[0]))])
        ranks = ranks_within(sizes)
        of_rows = np.repeat(codes, sizes)
        numbers = self._counts[of_rows] + ranks
        released = np.full(len(ticks), NOTHING)
        inside = np.flatnonzero(ranks >= self.slack)  # released are tuples of the same batch
        released[inside] = ticks[inside - self.slack]
        earlier = np.flatnonzero((ranks < self.slack) & (numbers >= self.slack))
        slots = self._slots(of_rows[earlier], numbers[earlier] - self.slack)
        released[earlier] = self._ticks[slots]
        self._make_room(codes, sizes)
        last = np.flatnonzero(np.repeat(sizes, sizes) - ranks <= self.slack)
        self._ticks[self._slots(of_rows[last], numbers[last])] = ticks[last]
        self._counts[codes] += sizes
        return released

    def _released_by_one(self, code: int, tick: int) -> int:
        """The same for a tuple that comes alone."""
        count, full = int(self._counts[code]), int(self._counts[code]) >= self.slack
        if not full and count == self._capacities[code]:
            self._make_room(np.array([code]), np.ones(1, np.int64))
        slot = int(self._begins[code]) + count % int(self._capacities[code])
        released = int(self._ticks[slot]) if full else NOTHING
        self._ticks[slot] = tick
        self._counts[code] += 1
        return released

    def _slots(self, codes: Codes, numbers: Ints) -> Ints:
        slots: Ints = self._begins[codes] + numbers % self._capacities[codes]
        return slots

    def _reserve(self, codes: Codes) -> None:
        size = int(codes.max(initial=-1)) + 1
        self._counts = grown(self._counts, size, 0)
        self._begins = grown(self._begins, size, 0)
        self._capacities = grown(self._capacities, size, 0)

    def _make_room(self, codes: Codes, sizes: Ints) -> None:
        needed = np.minimum(self._counts[codes] + sizes, self.slack)
        short = needed > self._capacities[codes]
        if not short.any():
            return
        codes = codes[short]
        wanted = np.minimum(np.maximum(needed[short], 2 * self._capacities[codes]), self.slack)
        begins = self._used + np.cumsum(wanted) - wanted
        self._used += int(wanted.sum())
        self._ticks = grown(self._ticks, self._used, 0)
        kept = self._counts[codes]  # a ring that is not full begins with tuple 0
        ranks = ranks_within(kept)
        old = np.repeat(self._begins[codes], kept) + ranks
        self._ticks[np.repeat(begins, kept) + ranks] = self._ticks[old]
        self._begins[codes], self._capacities[codes] = begins, wanted
