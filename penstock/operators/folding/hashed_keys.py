"""Codes of whole numbers that lie anywhere: a table by hash, which stays from batch to batch.

A number that finds its place taken by another one looks at the next: all rows of a batch at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.model.arrays import Codes, Ints
from penstock.model.stable_order import stable_order

_NONE = -1
_FIRST_SIZE = 1024  # places; always a power of two
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
Words = npt.NDArray[np.uint64]


class HashedKeys:
    """
    >>> table = HashedKeys()
    >>> table.add(np.array([1 << 40, -5]), np.array([0, 1]))
    True
    >>> table.find(np.array([-5, 6, 1 << 40]))
    array([ 1, -1,  0])
    """

    def __init__(self) -> None:
        self._values: Ints = np.zeros(_FIRST_SIZE, np.int64)  # by place
        self._codes: Codes = np.full(_FIRST_SIZE, _NONE)
        self._count = 0

    def find(self, values: Ints) -> Codes:
        """The code of each value, −1 for one without."""
        places = self._first_places(values)
        codes = self._codes[places]
        rows = np.flatnonzero((self._values[places] != values) & (codes != _NONE))
        places, values = places[rows], values[rows]
        while len(rows):
            places = (places + 1) & (len(self._codes) - 1)
            codes[rows] = there = self._codes[places]
            left = (self._values[places] != values) & (there != _NONE)
            rows, places, values = rows[left], places[left], values[left]
        return codes

    def add(self, values: Ints, codes: Codes) -> bool:
        """Take in values that are new here, each once; none is refused."""
        self._count += len(values)
        if 2 * self._count > len(self._codes):
            used = self._codes != _NONE
            values = np.concatenate([self._values[used], values])
            codes = np.concatenate([self._codes[used], codes])
            size = 1 << (2 * self._count).bit_length()
            self._values, self._codes = np.zeros(size, np.int64), np.full(size, _NONE)
            values, codes = self._put_into_empty(values, codes)
        self._put(values, codes)
        return True

    def _put_into_empty(self, values: Ints, codes: Codes) -> tuple[Ints, Codes]:
        """In the order of their places each takes its own, or the one behind that of the value
        before; those are left that would stand behind the end."""
        places = self._first_places(values)
        order = stable_order(places)
        turn = np.arange(len(order))
        places = np.maximum.accumulate(places[order] - turn) + turn
        inside = int(np.searchsorted(places, len(self._codes)))
        places = places[:inside]
        self._values[places], self._codes[places] = values[order[:inside]], codes[order[:inside]]
        return values[order[inside:]], codes[order[inside:]]

    def _put(self, values: Ints, codes: Codes) -> None:
        places = self._first_places(values)
        order = stable_order(places)  # neighbours in memory are read and written much faster
        places = places[order]
        values, codes = values[order], codes[order]
        while len(codes):
            free = np.flatnonzero(self._codes[places] == _NONE)
            own, new = places[free], codes[free]
            self._codes[own] = new  # one of those that want the same place
            first = self._codes[own] == new
            self._values[own[first]] = values[free[first]]
            left = np.ones(len(codes), np.bool_)
            left[free[first]] = False
            values, codes, places = values[left], codes[left], places[left]
            places = (places + 1) & (len(self._codes) - 1)

    def _first_places(self, values: Ints) -> Ints:
        places: Ints = (mixed(values.view(np.uint64)) & np.uint64(len(self._codes) - 1)).view(
            np.int64
        )
        return places


def mixed(words: Words) -> Words:
    """Words that are spread over all their bits."""
    found: Words = words * _FACTOR
    found ^= found >> _SHIFT
    found *= _FACTOR
    found ^= found >> _SHIFT
    return found
