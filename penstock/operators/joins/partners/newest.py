"""The newest tuples of an input, if they come a few at a time: to sort those would not pay."""

from __future__ import annotations

import numpy as np

from penstock.model.punctuation import END, Bound
from penstock.operators.joins.partners.tuples import Tuples

_ROOM = 32  # tuples
FEW = 4  # that come together


class Newest:
    def __init__(self) -> None:
        self._tuples: list[Tuples] = []
        self._size = 0
        self._codes = np.zeros(_ROOM, np.int64)
        self._ticks = np.zeros(_ROOM, np.int64)
        self.lowest: Bound = END

    def __len__(self) -> int:
        return self._size

    def takes(self, tuples: Tuples) -> bool:
        return self._size + len(tuples) <= _ROOM

    def add(self, tuples: Tuples) -> None:
        size = len(tuples)
        if not size:
            return
        end = self._size + size
        self._codes[self._size : end], self._ticks[self._size : end] = tuples.codes, tuples.ticks
        self._tuples.append(tuples)
        self._size = end
        self.lowest = min(self.lowest, *tuples.ticks.tolist())

    def has(self, code: int, low: int, high: int) -> bool:
        """Whether some tuple has a key, and a time within bounds."""
        size = self._size
        if not size:
            return False
        ticks = self._ticks[:size]
        found = (self._codes[:size] == code) & (ticks >= low) & (ticks <= high)
        return bool(found.any())

    def leave(self) -> Tuples:
        tuples, self._tuples = self._tuples, []
        self._size, self.lowest = 0, END
        return Tuples.joined(tuples)
