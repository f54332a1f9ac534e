"""Which of many rows belong to some groups, found without looking at all of them."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.stable_order import stable_order

_FEW = 1024  # rows that are looked through one by one


class RowsByGroup:
    """The groups of rows that are numbered as they are added.  Most are sorted by group; those that
    were added last are not.

    >>> rows = RowsByGroup()
    >>> rows.add(np.array([5, 7, 5]))
    >>> rows.of(np.array([5])), rows.of(np.array([3]))
    (array([0, 2]), array([], dtype=int64))
    """

    def __init__(self) -> None:
        self._groups: Codes = np.zeros(0, np.int64)
        self._size = 0
        self._order: Ints = np.zeros(0, np.int64)  # of the first rows, by their groups
        self._sorted: Codes = np.zeros(0, np.int64)

    @property
    def groups(self) -> Codes:
        return self._groups[: self._size]

    def add(self, groups: Codes) -> None:
        needed = self._size + len(groups)
        if needed > len(self._groups):
            longer = np.zeros(max(needed, 2 * len(self._groups)), np.int64)
            longer[: self._size] = self.groups
            self._groups = longer
        self._groups[self._size : needed] = groups
        self._size = needed

    def of(self, groups: Codes) -> Ints:
        """The rows of some groups, which ascend, in the order in which they were added."""
        if self._size - len(self._order) > max(_FEW, len(self._order) // 2):
            self._order = stable_order(self.groups)
            self._sorted = self.groups[self._order]
        begin = np.searchsorted(self._sorted, groups)
        counts = np.searchsorted(self._sorted, groups, side="right") - begin
        total = int(counts.sum())
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        found = self._order[np.repeat(begin, counts) + within]
        behind = len(self._order)
        newest = behind + np.flatnonzero(np.isin(self._groups[behind : self._size], groups))
        rows: Ints = np.concatenate([np.sort(found), newest])
        return rows
