"""The latest first tuple of every key up to some time: it hides all those before it."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.types import INT64_MIN
from penstock.operators.folding.scatter import grown

_NONE = -1


class Settled:
    """Numbers and ticks by key.  Where tuples become too old, `ages` has them in the order of their
    ticks, so that nobody has to look through all keys for them."""

    def __init__(self, ages: bool) -> None:
        self._numbers: Ints = np.zeros(0, np.int64)
        self._ticks: Ints = np.zeros(0, np.int64)
        self._ages = ages
        self._by_age: list[tuple[int, int, Codes, Ints, Ints]] = []  # a heap, by the lowest tick
        self._entries = 0

    def __len__(self) -> int:
        return int(np.count_nonzero(self._numbers != _NONE))

    def codes(self) -> Codes:
        return np.flatnonzero(self._numbers != _NONE)

    def of(self, codes: Codes) -> tuple[Ints, Ints]:
        """The numbers of the tuples that keys have, -1 for none, and their ticks."""
        self._grow(codes)
        return self._numbers[codes], self._ticks[codes]

    def put(self, codes: Codes, numbers: Ints, ticks: Ints) -> None:
        """Other tuples for some keys."""
        self._grow(codes)
        self._numbers[codes], self._ticks[codes] = numbers, ticks
        if self._ages and len(codes):
            self._enter(codes, numbers, ticks)

    def _enter(self, codes: Codes, numbers: Ints, ticks: Ints) -> None:
        self._entries += 1
        heappush(self._by_age, (int(ticks.min()), self._entries, codes, numbers, ticks))

    def expire(self, limit: int) -> Ints:
        """Forget the tuples below a tick; their numbers."""
        gone: list[Ints] = []
        while self._by_age and self._by_age[0][0] < limit:
            _, _, codes, numbers, ticks = heappop(self._by_age)
            current: Mask = self._numbers[codes] == numbers  # others have been hidden meanwhile
            old = current & (ticks < limit)
            gone.append(numbers[old])
            self._numbers[codes[old]] = _NONE
            rest = current & ~old
            if rest.any():
                self._enter(codes[rest], numbers[rest], ticks[rest])
        return np.concatenate(gone) if gone else np.zeros(0, np.int64)

    def clear(self) -> Ints:
        """Forget all; their numbers."""
        numbers: Ints = self._numbers[self.codes()]
        self._numbers, self._ticks, self._by_age = self._numbers[:0], self._ticks[:0], []
        return numbers

    def renumber(self, places: Codes) -> None:
        """Keys have got other numbers."""
        codes = self.codes()
        numbers, ticks = self._numbers[codes], self._ticks[codes]
        self._numbers, self._ticks = self._numbers[:0], self._ticks[:0]
        self._by_age = []
        self.put(places[codes], numbers, ticks)

    def _grow(self, codes: Codes) -> None:
        size = int(codes.max()) + 1 if len(codes) else 0
        if size > len(self._numbers):
            self._numbers = grown(self._numbers, size, _NONE)
            self._ticks = grown(self._ticks, size, INT64_MIN)
