"""Intervals of time by key, as columns: their union, and when others come out of it or go into it.

Intervals have both ends included, so that the last tick of all can be one of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.operators.joins.keyed_times import KeyedTimes


class Intervals(NamedTuple):
    codes: Codes
    since: Ints
    last: Ints


def united(given: Intervals) -> Intervals:
    """The union by key, in order; no two of them touch.

    >>> codes, since, last = np.array([1, 1, 0, 1]), np.array([4, 9, 0, 1]), np.array([6, 9, 2, 3])
    >>> [column.tolist() for column in united(Intervals(codes, since, last))]
    [[0, 1, 1], [0, 1, 9], [2, 6, 9]]
    """
    if len(given.codes) == 0:
        return given
    order = KeyedTimes(given.codes, given.since, None).order
    codes, since, last = (column[order] for column in given)
    same = codes[1:] == codes[:-1]
    reached = _running_highest(codes, last)[:-1]
    begins = np.append(True, ~same | ((since[1:] > reached) & (since[1:] - 1 != reached)))
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(codes)) - 1
    return Intervals(codes[starts], since[starts], _running_highest(codes, last)[ends])


def _running_highest(codes: Codes, values: Ints) -> Ints:
    """The highest value so far of each key; keys lie together."""
    if (values[1:] >= values[:-1])[codes[1:] == codes[:-1]].all():
        return values
    known, ranks = np.unique(values, return_inverse=True)
    key = np.cumsum(np.append(False, codes[1:] != codes[:-1])) * len(known)
    highest: Ints = known[np.maximum.accumulate(ranks + key) - key]
    return highest


class StayChanges(NamedTuple):
    """Which stay, when, and whether it becomes free (+1) or ceases to be (-1)."""

    which: Ints
    ticks: Ints
    signs: Ints


class FreeTimes:
    """When stays are free of the union of others, as changes from tick to tick."""

    def __init__(self, union: Intervals) -> None:
        self._union = union
        self._since = KeyedTimes(union.codes, union.since, None)
        self._last = KeyedTimes(union.codes, union.last, None)

    def changes(self, stays: Intervals, from_: Ints, upto: int) -> StayChanges:
        """All changes of each stay from some tick on, not before its own, up to a last one.

        >>> one = [np.array([column]) for column in (0, 0, 9)]
        >>> others = [np.array(column) for column in ([0, 0], [2, 6], [4, 20])]
        >>> found = FreeTimes(Intervals(*others)).changes(Intervals(*one), np.array([0]), 100)
        >>> list(zip(found.ticks.tolist(), found.signs.tolist()))
        [(0, 1), (5, 1), (2, -1), (6, -1)]
        """
        codes, since, last = stays
        later = from_ > since  # it has been there before
        most = np.minimum(last, upto)
        entering = np.flatnonzero(~later & (since <= upto) & ~self.covers(codes, since))
        still = (last >= from_) | (last == from_ - 1)
        leaving = np.flatnonzero(still & (last < upto) & ~self.covers(codes, last))
        # what covers it ends within it: it is free from the next tick on
        ended = self._last.since(codes, np.where(later, from_ - 1, since))
        freed = _spread(ended, self._last.since(codes, most))
        # something begins that covers it
        begun = self._since.upto(codes, np.where(later, from_ - 1, since))
        hidden = _spread(begun, self._since.upto(codes, most))
        ticks = [
            since[entering],
            self._union.last[freed[1]] + 1,
            self._union.since[hidden[1]],
            last[leaving] + 1,
        ]
        which = [entering, freed[0], hidden[0], leaving]
        signs = [1, 1, -1, -1]
        return StayChanges(
            np.concatenate(which),
            np.concatenate(ticks),
            np.repeat(np.array(signs), [len(each) for each in which]),
        )

    def covers(self, codes: Codes, ticks: Ints) -> Mask:
        """Whether the union holds a tick of a key."""
        if len(self._union.codes) == 0:
            return np.zeros(len(codes), np.bool_)
        place = self._last.since(codes, ticks)  # the first that ends at or after it
        known = np.minimum(place, len(self._union.codes) - 1)
        found: Mask = (self._union.codes[known] == codes) & (self._union.since[known] <= ticks)
        return found & (place < len(self._union.codes))


def _spread(begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Every number from begin to before end, and which pair it is of."""
    counts = np.maximum(ends - begins, 0)
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) + (begins - np.cumsum(counts) + counts)[which]
