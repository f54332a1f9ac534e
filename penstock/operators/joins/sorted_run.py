"""Tuples of one input of a join, sorted by key and time: partners are found by bisection."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.operators.joins.tuples import Tuples
from penstock.windows.columns import extremes

_MOST = 2**62  # of a place: keys and times are packed into one number


class Places:
    """How key and time make one number, in whose order tuples lie.

    The tick counts from the lowest; where keys are too many and times too far apart for 64 bits, it
    is the number of the tick among those that there are.

    >>> places = Places(np.array([3, 1]), np.array([-5, 90]))
    >>> places.of(np.array([3, 1]), np.array([-5, 90]))
    array([291, 192])
    >>> places.between(np.array([1, 1]), np.array([0, 91]), np.array([90, 99]))
    (array([102, 193]), array([193, 193]))
    """

    __slots__ = ("_codes", "_known", "highest", "lowest", "stride")

    def __init__(self, codes: Codes, ticks: Ints) -> None:
        self.lowest, self.highest = extremes(ticks)
        self._codes = extremes(codes)[1] + 1  # above all of them
        self.stride = self.highest - self.lowest + 2
        self._known: Ints | None = None
        if self.stride * (self._codes + 1) > _MOST:
            self._known = np.unique(ticks)
            self.stride = len(self._known) + 1

    def of(self, codes: Codes, ticks: Ints) -> Ints:
        """The places of the tuples themselves."""
        if self._known is not None:
            return codes * self.stride + np.searchsorted(self._known, ticks)
        return codes * self.stride + (ticks - self.lowest)

    def between(self, codes: Codes, lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
        """From which place on, and up to before which, tuples have a key and a time within bounds;
        none do where the second is not above the first."""
        if self._known is not None:
            first = np.searchsorted(self._known, lows)
            stop = np.searchsorted(self._known, highs, side="right")
        else:
            # no difference is taken before both sides are near
            first = np.maximum(lows, self.lowest)
            first = np.minimum(first, self.highest) - self.lowest + (lows > self.highest)
            stop = np.minimum(highs, self.highest)
            stop = np.maximum(stop, self.lowest) - self.lowest + (highs >= self.lowest)
        begin = np.minimum(codes, self._codes) * self.stride
        return begin + first, begin + stop


class SortedRun:
    """Tuples that stay as they are, but for which of them are done with."""

    __slots__ = (
        "_by_time",
        "_sorted",
        "finished",
        "number",
        "order",
        "places",
        "touched",
        "tuples",
    )

    def __init__(self, tuples: Tuples, number: int = 0) -> None:
        self.tuples = tuples
        self.number = number  # among all runs of a side that there ever were
        done = tuples.done
        self.finished = 0 if done is None else int(np.count_nonzero(done))  # how many are done with
        self.touched = True  # whether these are others than those that a store knows of
        self.places = Places(tuples.codes, tuples.ticks)
        given = self.places.of(tuples.codes, tuples.ticks)
        self.order: Ints = np.argsort(given)
        self._sorted = given[self.order]
        self._by_time: tuple[Ints, Ints] | None = None

    def __len__(self) -> int:
        return len(self.tuples)

    @property
    def lowest(self) -> int:
        return self.places.lowest

    @property
    def highest(self) -> int:
        return self.places.highest

    def find(self, codes: Codes, lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
        """Where in the order the partners of tuples begin, and how many there are."""
        first, stop = self.places.between(codes, lows, highs)
        begins = np.searchsorted(self._sorted, first)
        counts = np.searchsorted(self._sorted, stop) - begins
        return begins, np.maximum(counts, 0)

    def below(self, limit: int) -> int:
        """How many tuples are below a tick."""
        return int(np.searchsorted(self._in_time()[0], limit))

    def rows_below(self, limit: int) -> Ints:
        """Which ones, in the order of their times."""
        ticks, rows = self._in_time()
        return rows[: np.searchsorted(ticks, limit)]

    def _in_time(self) -> tuple[Ints, Ints]:
        """Ticks in order, and the rows that have them."""
        if self._by_time is None:
            order = np.argsort(self.tuples.ticks, kind="stable")
            self._by_time = self.tuples.ticks[order], order
        return self._by_time

    def finish(self, rows: Ints) -> Ints:
        """Be done with rows; those that this is news of, each once."""
        done = self.tuples.done
        assert done is not None
        fresh = np.unique(rows[~done[rows]])
        if len(fresh):
            done[fresh] = True
            self.finished += len(fresh)
            self.touched = True
        return fresh
