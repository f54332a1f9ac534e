"""Forgetting keys: the numbers of groups that nothing is kept of are given up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.model.arrays import Codes, Mask
from penstock.operators.folding.folder import Folder, Partials

MANY = 4096  # groups below which nothing is forgotten


class DeadKeys:
    """Looks for dead groups whenever there are twice as many groups as were alive the last time, so
    that looking costs little for each group."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._look_again = 0

    def forget(
        self, mark: Callable[[Mask], None], renumber: Callable[[Codes, Codes], None]
    ) -> None:
        """`mark` marks the groups of which something is kept.  `renumber` is told which ones stay,
        and the new number of each old one."""
        size = len(self._folder.keys)
        if size < max(MANY, self._look_again):
            return
        live = np.zeros(size, np.bool_)
        mark(live)
        codes = np.flatnonzero(live)
        if 2 * len(codes) < size:
            place = np.zeros(size, np.int64)
            place[codes] = np.arange(len(codes))
            renumber(codes, place)
            self._folder.keys = self._folder.keys.only(codes)
        self._look_again = 2 * len(codes)


def mark_groups(live: Mask, partials: Partials) -> None:
    """The groups that partial results have rows of."""
    rows = partials.rows.rows[: len(live)]
    live[: len(rows)] |= rows > 0
