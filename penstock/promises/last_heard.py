"""When sub-sources spoke last, and which have been silent for the longest."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.stable_order import stable_order
from penstock.model.types import INT64_MIN
from penstock.operators.folding.scatter import grown
from penstock.promises.running_bounds import BLOCK, blocks_of
from penstock.state.chunks import ChunkStore, required

_NEVER = INT64_MIN
_FEW = 1024  # names that are kept although their sub-sources have spoken again


@dataclass(slots=True)
class _Moment:
    """Who spoke at a moment; `left` of them have not spoken since."""

    when: int
    number: int
    codes: list[Codes] = field(default_factory=list)
    left: int = 0


class LastHeard:
    """Sub-sources by moments, in the order in which those came.  One that speaks again is counted
    at its new moment only; its old name is left where it is until nobody is left there."""

    def __init__(self) -> None:
        self._moments: dict[int, _Moment] = {}  # by number, as they came
        self._first = self._next = 0  # the numbers of the first one, and of the one to come
        self._at: Ints = np.zeros(0, np.int64)  # the number of the moment of each, −1 if of none
        self._when: Ints = np.zeros(0, np.int64)
        self._size = 0
        self._names = 0  # in all moments
        self._touched: set[int] = set()  # blocks, since the last save

    def __len__(self) -> int:
        return self._size

    @property
    def longest_silence(self) -> int:
        """Since when; somebody must have been heard."""
        return self._moments[self._first].when

    def most_silent(self) -> Codes:
        """Those who have been silent for the longest, in the order of their numbers."""
        first = self._moments[self._first]
        codes = np.concatenate(first.codes)
        return np.unique(codes[self._at[codes] == first.number])

    def put(self, codes: Codes, now: int) -> None:
        """Some speak, each named once."""
        if len(codes) == 0:
            return
        self.drop(codes)
        if not self._moments or self._moments[self._next - 1].when != now:
            self._moments[self._next] = _Moment(now, self._next)
            self._next += 1
        last = self._moments[self._next - 1]
        last.codes.append(codes)
        last.left += len(codes)
        self._at[codes], self._when[codes] = last.number, now
        self._size += len(codes)
        self._names += len(codes)
        if self._names > 2 * self._size + _FEW:
            self._tidy()

    def drop(self, codes: Codes) -> None:
        """Forget when they spoke."""
        size = int(codes.max(initial=-1)) + 1
        self._at, self._when = grown(self._at, size, -1), grown(self._when, size, _NEVER)
        numbers, counts = np.unique(self._at[codes], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number >= 0:
                self._moments[number].left -= count
                self._size -= count
        self._at[codes], self._when[codes] = -1, _NEVER
        self._touched.update(blocks_of(codes))
        while self._first < self._next and not self._moments[self._first].left:
            gone = self._moments.pop(self._first)
            self._names -= sum(map(len, gone.codes))
            self._first += 1

    def _tidy(self) -> None:
        """Without names that were left behind."""
        self._restore(self._when)

    def _restore(self, when: Ints) -> None:
        heard = np.flatnonzero(when != _NEVER)
        order = heard[stable_order(when[heard])]
        times, begins = np.unique(when[order], return_index=True)
        self._when = when
        self._at = np.full(len(when), -1)
        self._size = self._names = len(heard)
        self._moments = {}
        self._first, self._next = 0, len(times)
        ends = [*begins[1:].tolist(), len(order)]
        for number, time in enumerate(times.tolist()):
            codes = order[begins[number] : ends[number]]
            self._at[codes] = number
            self._moments[number] = _Moment(time, number, [codes], len(codes))

    def save(self, store: ChunkStore) -> None:
        for block in self._touched:
            store.put(f"heard/{block}", self._when[block * BLOCK : (block + 1) * BLOCK])
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        """In place of what is known."""
        when: Ints = np.zeros(0, np.int64)
        for name in store.names():
            if name.startswith("heard/"):
                begin, found = int(name.removeprefix("heard/")) * BLOCK, required(store, name)
                when = grown(when, begin + len(found), _NEVER)
                when[begin : begin + len(found)] = found
        self._restore(when)
