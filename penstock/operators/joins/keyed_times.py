"""Tuples in the order of key and time, in which others find those of their key by bisection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.windows.columns import extremes

_MOST = 2**62  # of a place: key and time are packed into one number
_FEW = 64  # places that are looked for as they come


class KeyedTimes:
    """`order` says how tuples lie.  Of those that have one key and one time, `ties` says the order:
    it is asked for the ranks of some of them, and only where there are such.

    >>> times = KeyedTimes(np.array([7, 4, 7]), np.array([30, 10, 10]), lambda which: which)
    >>> times.order
    array([1, 2, 0])
    >>> times.upto(np.array([7, 7, 4]), np.array([29, 30, 9]))
    array([2, 3, 0])
    >>> times.since(np.array([7, 7, 4]), np.array([29, 31, 9]))
    array([2, 3, 0])
    """

    def __init__(self, codes: Codes, ticks: Ints, ties: Callable[[Ints], Ints] | None) -> None:
        self._low, self._high = extremes(ticks) if len(ticks) else (0, 0)
        self._codes = extremes(codes)[1] + 1 if len(codes) else 0  # above all of them
        self._stride = self._high - self._low + 2  # place 0 of a key is before its first time
        self._known: Ints | None = None
        if self._stride * (self._codes + 1) > _MOST:  # then ticks are numbered, lowest first
            self._known = np.unique(ticks)
            self._stride = len(self._known) + 1
        places = codes * self._stride + self._upto(ticks)
        self.order: Ints = np.argsort(places)
        self._places: Ints = places[self.order]
        if ties is not None and len(places) > 1:
            self._settle(ties)

    def _settle(self, ties: Callable[[Ints], Ints]) -> None:
        same = self._places[1:] == self._places[:-1]
        if not same.any():
            return
        tied = np.zeros(len(self.order), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        which = self.order[tied]
        ranks = ties(which)
        self.order[tied] = which[np.lexsort((ranks, self._places[tied]))]

    def upto(self, codes: Codes, ticks: Ints) -> Ints:
        """Where in the order the tuples of a key end that are not above a tick."""
        return self._find(self._begins(codes) + self._upto(ticks) + 1)

    def since(self, codes: Codes, ticks: Ints | None) -> Ints:
        """Where those begin that are not below a tick, or all of the key."""
        begins = self._begins(codes)
        return self._find(begins if ticks is None else begins + self._since(ticks))

    def _begins(self, codes: Codes) -> Ints:
        begins: Ints = np.minimum(codes, self._codes) * self._stride
        return begins

    def _find(self, places: Ints) -> Ints:
        """How many tuples are below each place."""
        if len(places) < _FEW:
            return self._places.searchsorted(places)
        order = np.argsort(places)  # in order, they are found much faster
        found = np.empty(len(places), np.int64)
        found[order] = self._places.searchsorted(places[order])
        return found

    def _upto(self, ticks: Ints) -> Ints:
        """How many places the ticks up to each one take; ticks may lie outside of those known."""
        if self._known is not None:
            return self._known.searchsorted(ticks, "right")
        # no difference is taken before both sides are near
        return np.clip(ticks, self._low, self._high) - self._low + (ticks >= self._low)

    def _since(self, ticks: Ints) -> Ints:
        if self._known is not None:
            return self._known.searchsorted(ticks, "left") + 1
        return np.clip(ticks, self._low, self._high) - self._low + 1 + (ticks > self._high)


def earlier(ticks: Ints, length: int) -> Ints:
    """Ticks so much earlier, or the earliest that 64 bits can hold.

    >>> earlier(np.array([5, -(2**63) + 1]), 2)
    array([                   3, -9223372036854775808])
    """
    while length > INT64_MAX:
        ticks, length = earlier(ticks, INT64_MAX), min(length - INT64_MAX, 2**64)
    return np.maximum(ticks, INT64_MIN + length) - length
