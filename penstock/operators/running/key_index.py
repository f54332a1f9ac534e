"""Where the rows of keys are, among many rows that stay where they are."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.stable_order import stable_order

_SPAN = 4096  # of a table that is always allowed
_SPARSE = 4  # how many places a longer table may have for each row


class KeyIndex:
    """Rows in the order of their keys, and where each key begins: in a table by key, if the keys
    lie close together.

    >>> index = KeyIndex(np.array([7, 5, 7]))
    >>> begin, counts = index.find(np.array([7, 6, 5]))
    >>> counts, index.order[begin[0] : begin[0] + counts[0]]
    (array([2, 0, 1]), array([0, 2]))
    """

    def __init__(self, codes: Codes) -> None:
        self.order: Ints = stable_order(codes)
        self._sorted = codes[self.order]
        self._lowest = int(self._sorted[0])
        span = int(self._sorted[-1]) - self._lowest + 1
        self._begins: Ints | None = None
        if span <= max(_SPAN, _SPARSE * len(codes)):
            counts = np.bincount(self._sorted - self._lowest, minlength=span)
            # two places more, for keys that are not in the table: both begin at its end
            self._begins = np.append(0, np.append(np.cumsum(counts), len(codes)))

    def find(self, codes: Codes) -> tuple[Ints, Ints]:
        """Where the rows of each key begin in `order`, and how many there are."""
        if self._begins is None:
            begin = np.searchsorted(self._sorted, codes)
            return begin, np.searchsorted(self._sorted, codes, side="right") - begin
        places = codes - self._lowest
        nowhere = len(self._begins) - 2
        places[places.view(np.uint64) > nowhere] = nowhere
        begin = self._begins[places]
        return begin, self._begins[places + 1] - begin
