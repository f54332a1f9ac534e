"""The lowest of many numbers that change: found without looking at those that have not changed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.types import INT64_MAX

NOBODY = INT64_MAX  # what is not counted
_BITS = 6
_WIDE = 1 << _BITS  # numbers whose lowest is kept together


class Lowest:
    """Blocks of numbers with the lowest of each block, blocks of those, and so on.

    >>> lowest = Lowest()
    >>> lowest.put(np.array([3, 200]), np.array([9, 4]))
    >>> lowest.value, lowest.at_most(9)
    (4, array([  3, 200]))
    >>> lowest.put_one(200, NOBODY)
    >>> lowest.value
    9
    """

    def __init__(self) -> None:
        self._levels: list[Ints] = [np.full(_WIDE, NOBODY)]

    @property
    def value(self) -> int:
        """NOBODY if nothing is counted."""
        return int(self._levels[-1].min())

    def put(self, codes: Codes, values: Ints) -> None:
        """Change the numbers of some, none of which is named twice."""
        if len(codes) == 0:
            return
        self._reserve(int(codes.max()) + 1)
        self._levels[0][codes] = values
        for below, above in pairwise(self._levels):
            changed = np.zeros(len(above), np.bool_)
            changed[codes >> _BITS] = True
            codes = np.flatnonzero(changed)
            above[codes] = below.reshape(-1, _WIDE)[codes].min(axis=1)

    def put_one(self, code: int, value: int) -> None:
        if code >= len(self._levels[0]):
            self._reserve(code + 1)
        for below, above in pairwise(self._levels):
            before, block = int(below[code]), code >> _BITS
            below[code] = value
            lowest = int(above[block])
            if lowest < min(before, value):
                return  # another one of the block is the lowest, as it was
            if value > lowest:
                value = int(below[block << _BITS : (block + 1) << _BITS].min())
            code = block
        self._levels[-1][code] = value

    def at_most(self, value: int) -> Codes:
        """All whose numbers are not above one."""
        codes = np.flatnonzero(self._levels[-1] <= value)
        for below in self._levels[-2::-1]:
            inside = below.reshape(-1, _WIDE)[codes] <= value
            blocks, places = np.nonzero(inside)
            codes = (codes[blocks] << _BITS) + places
        return codes

    def _reserve(self, size: int) -> None:
        level = self._levels[0]
        if size <= len(level):
            return
        grown = np.full(_up_to_blocks(max(size, 2 * len(level))), NOBODY)
        grown[: len(level)] = level
        self._levels = [grown]
        while len(self._levels[-1]) > _WIDE:
            lowest = self._levels[-1].reshape(-1, _WIDE).min(axis=1)
            above = np.full(_up_to_blocks(len(lowest)), NOBODY)
            above[: len(lowest)] = lowest
            self._levels.append(above)


def _up_to_blocks(size: int) -> int:
    return -(-size // _WIDE) * _WIDE
