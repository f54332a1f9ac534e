"""Ticks of groups to sessions, and sessions that touch to one: on whole columns.

A session comes as its group, its first tick and its last.  Rows and sessions are in the order of
group and tick here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.stable_order import stable_order, stable_order_by
from penstock.windows.columns import exceeds_by_at_most

_BITS = 62


class Sessions(NamedTuple):
    groups: Codes
    firsts: Ints
    lasts: Ints

    def __len__(self) -> int:
        return len(self.groups)


def in_order(groups: Codes, ticks: Ints) -> Ints | None:
    """How to put rows in the order of group and tick; None if they are."""
    if len(groups) < 2:
        return None
    rising = ticks[1:] >= ticks[:-1]
    if ((groups[1:] > groups[:-1]) | ((groups[1:] == groups[:-1]) & rising)).all():
        return None
    places = _places(groups, ticks)
    return stable_order_by(groups, ticks) if places is None else stable_order(places)


def _places(groups: Codes, ticks: Ints) -> Ints | None:
    """Group and tick as one number; None if that would be too large."""
    lowest = int(ticks.min())
    bits = (int(ticks.max()) - lowest).bit_length()
    if bits + int(groups.max()).bit_length() > _BITS:
        return None
    places: Ints = (groups << bits) | (ticks - lowest)
    return places


def cut(groups: Codes, ticks: Ints, gap: int) -> Mask:
    """Which rows begin a session: those that come GAP or more after the one before.

    >>> cut(np.array([0, 0, 0, 1]), np.array([5, 8, 12, 12]), gap=4).tolist()
    [True, False, True, True]
    """
    begins = np.ones(len(groups), np.bool_)
    begins[1:] = (groups[1:] != groups[:-1]) | (ticks[1:] >= ticks[:-1] + gap)
    return begins


def cut_long(begins: Mask, starts: Ints, ticks: Ints, longest: int) -> Mask:
    """The same where none may be longer than MAX: a row that comes so long after the first of its
    session begins another.  `starts` has the first tick of every one that begins here, which may
    have begun before these rows.

    >>> ticks = np.array([5, 7, 9, 12])
    >>> cut_long(np.array([True, False, False, False]), np.array([4]), ticks, longest=4).tolist()
    [True, False, True, False]
    """
    found = begins.copy()
    places = np.flatnonzero(begins)
    ends = np.append(places[1:], len(ticks))
    too_long = np.flatnonzero(~exceeds_by_at_most(ticks[ends - 1], starts, longest - 1))
    for begin, end, start in zip(
        places[too_long].tolist(), ends[too_long].tolist(), starts[too_long].tolist(), strict=True
    ):
        at = begin + int(ticks[begin:end].searchsorted(start + longest))
        while at < end:
            found[at] = True
            at += int(ticks[at:end].searchsorted(int(ticks[at]) + longest))
    return found


def first_place(low: Ints, high: Ints, holds: Callable[[Ints, Ints], Mask]) -> Ints:
    """Of some stretches of places, the first at which something holds that goes on to hold; where
    it never does, the end of the stretch.  `holds` is asked for places of some stretches."""
    low, high = low.copy(), high.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        found = holds(middle, open_)
        high[open_[found]] = middle[found]
        low[open_[~found]] = middle[~found] + 1
        open_ = open_[low[open_] < high[open_]]
    return low


def touching(items: Sessions, gap: int) -> Mask:
    """Which of some sessions begin another one than those before them, where sessions that are
    less than GAP apart are one.

    >>> items = Sessions(np.array([0, 0, 0, 0]), np.array([1, 2, 8, 20]), np.array([9, 3, 12, 20]))
    >>> touching(items, gap=5).tolist()
    [True, False, False, True]
    """
    begins = np.ones(len(items), np.bool_)
    if len(items) > 1:
        reached = _highest_so_far(items.groups, items.lasts)
        apart = items.firsts[1:] >= reached[:-1] + gap
        begins[1:] = (items.groups[1:] != items.groups[:-1]) | apart
    return begins


def _highest_so_far(groups: Codes, values: Ints) -> Ints:
    """The running maximum of every group."""
    places = _places(groups, values)
    order = stable_order(values if places is None else places)
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(len(values))
    if places is None:
        ranks += np.cumsum(np.diff(groups, prepend=groups[0]) != 0) * len(values)
    highest = np.maximum.accumulate(ranks) % len(values)
    found: Ints = values[order[highest]]
    return found
