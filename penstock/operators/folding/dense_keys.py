"""Codes of integers that lie close together: a table by value, several times faster than hashing.

Integers that are spread too widely for a table are left to others.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.types import INT64_MIN
from penstock.windows.columns import extremes

_SPAN = 4096  # of a table that is always allowed
_SPARSE = 16  # how many places a longer table may have for each value


class DenseKeys:
    """
    >>> table = DenseKeys()
    >>> table.add(np.array([7, 5]), np.array([0, 1]))
    True
    >>> table.find(np.array([5, 6, 7]))
    array([ 1, -1,  0])
    """

    def __init__(self) -> None:
        self._base = 0
        self._codes: Codes = np.empty(0, np.int64)  # by value, from the base on
        self._count = 0
        self._lowest, self._highest = 0, -1

    def find(self, values: Ints) -> Codes:
        """The code of each value, −1 for one without."""
        places = values - self._base if self._base else values
        unsigned = places.view(np.uint64)  # negative ones are above all others
        if int(unsigned.max()) < len(self._codes):
            return self._codes[places]
        codes: Codes = np.full(len(values), -1)
        inside = np.flatnonzero(unsigned < len(self._codes))
        codes[inside] = self._codes[places[inside]]
        return codes

    def add(self, values: Ints, codes: Codes) -> bool:
        """Take in values that are new here; false if they lie too far apart."""
        if not len(values):
            return True
        lowest, highest = extremes(values)
        if self._count:
            lowest, highest = min(lowest, self._lowest), max(highest, self._highest)
        self._count += len(values)
        span = highest - lowest + 1
        if span > max(_SPAN, _SPARSE * self._count):
            return False
        if lowest < self._base or highest >= self._base + len(self._codes):
            self._lengthen(max(INT64_MIN, lowest - span // 2), 2 * span)
        self._lowest, self._highest = lowest, highest
        self._codes[values - self._base] = codes
        return True

    def _lengthen(self, base: int, size: int) -> None:
        """There is room on both sides, so that this is rarely needed."""
        used = self._codes[self._lowest - self._base : self._highest + 1 - self._base]
        longer = np.full(size, -1, np.int64)
        at = self._lowest - base
        longer[at : at + len(used)] = used
        self._base, self._codes = base, longer
