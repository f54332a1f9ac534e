"""Tuples of one input of a difference: from when to when each is in its window.

They wait until all that happens up to their time is known.  Where items have signs, a negative one
then ends the stay of the tuple that it takes back.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import Bound
from penstock.model.types import INT64_MAX
from penstock.operators.batch import Batch, Signs
from penstock.operators.joins.differences.intervals import Intervals
from penstock.operators.joins.kept_tuples import KeptTuples
from penstock.operators.signed.lineage import (
    happening_order,
    lineage_of,
    numbers_of,
    segments,
    signs_of,
    stacked,
)
from penstock.operators.signed.netting import NOTHING, taken_back
from penstock.state.chunks import ChunkStore, Tree, required


class Stays:
    """`length` is that of the window; None: for ever.  Rows go by the numbers of their tuples; of
    an input without a `schema`, none are kept."""

    def __init__(self, schema: pa.Schema | None, length: int | None) -> None:
        self._rows = KeptTuples(schema) if schema is not None else None
        self._came = 0
        self._length = length
        self._waiting = _Items.none()
        self._there = _Items.none()  # positive items that have not been taken back
        self.last: Ints = np.zeros(0, np.int64)  # the last tick of each in its window

    @property
    def numbers(self) -> Ints:
        return self._there.numbers

    @property
    def intervals(self) -> Intervals:
        return Intervals(self._there.codes, self._there.ticks, self.last)

    @property
    def waiting(self) -> int:
        return len(self._waiting.numbers)

    def __len__(self) -> int:
        return self.waiting + len(self.numbers)

    def columns(self, numbers: Ints) -> list[pa.Array]:
        assert self._rows is not None
        return self._rows.columns(numbers)

    def codes(self) -> Codes:
        """The keys of all."""
        return np.concatenate([self._waiting.codes, self._there.codes])

    def add(self, batch: Batch, codes: Codes, ticks: Ints) -> None:
        numbers = np.arange(self._came, self._came + batch.num_rows)
        self._came += batch.num_rows
        if self._rows is not None:
            self._rows.add(batch.rows)  # under the same numbers
        items = _Items(numbers, codes, ticks, signs_of(batch), lineage_of(batch))
        self._waiting = _Items.joined(self._waiting, items)

    def settle(self, bound: Bound) -> Mask:
        """Take in all that happens below a bound; which stays are new."""
        known = len(self.numbers)
        due = self._waiting.ticks < bound
        if not due.any():
            return np.zeros(known, np.bool_)
        came, self._waiting = self._waiting.take(due), self._waiting.take(~due)
        came = came.take(happening_order(came.ticks, came.signs, came.lineage))
        there = _Items.joined(self._there, came)
        last = np.concatenate([self.last, self._expiry(came.ticks)])
        if (came.signs < 0).any():
            self._end(there, last)
        gone = (there.signs < 0) | (last < there.ticks)
        if self._rows is not None:
            self._rows.forget(there.numbers[gone])
        self._there, self.last = there.take(~gone), last[~gone]
        new = np.arange(len(there.numbers)) >= known
        return new[~gone]

    def _expiry(self, ticks: Ints) -> Ints:
        """Scans leave out tuples of which the windows would not fit 64 bits."""
        return np.full(len(ticks), INT64_MAX) if self._length is None else ticks + self._length

    @staticmethod
    def _end(items: _Items, last: Ints) -> None:
        """Let every positive item end that is taken back, before the negative one."""
        partners = np.full(len(items.numbers), NOTHING)
        known = np.flatnonzero(items.lineage[:, 0] >= 0)
        kinds = segments(list(numbers_of(items.lineage[known]).T))
        found = taken_back(kinds, items.signs[known])
        partners[known] = np.where(found == NOTHING, NOTHING, known[found])
        ends = np.flatnonzero(partners != NOTHING)
        last[partners[ends]] = np.minimum(last[partners[ends]], items.ticks[ends] - 1)
        items.lineage[partners[ends], 0] = NOTHING  # they are not taken back again

    def forget(self, which: Mask) -> None:
        if which.any():
            if self._rows is not None:
                self._rows.forget(self.numbers[which])
            self._there, self.last = self._there.take(~which), self.last[~which]

    def renumber(self, places: Codes) -> None:
        """Keys have got other numbers."""
        for items in (self._waiting, self._there):
            items.codes[:] = places[items.codes]

    def save(self, store: ChunkStore) -> None:
        if self._rows is not None:
            self._rows.save(store)
        items = {"waiting": self._waiting.save(), "there": self._there.save()}
        store.put("stays", {**items, "last": self.last, "came": self._came})

    def load(self, store: ChunkStore) -> None:
        if self._rows is not None:
            self._rows.load(store)
        saved = required(store, "stays")
        self._waiting, self._there = _Items(*saved["waiting"]), _Items(*saved["there"])
        self.last, self._came = saved["last"], saved["came"]


class _Items:
    """Columns of items."""

    __slots__ = ("codes", "lineage", "numbers", "signs", "ticks")

    def __init__(
        self, numbers: Ints, codes: Codes, ticks: Ints, signs: Signs, lineage: Ints
    ) -> None:
        self.numbers, self.codes, self.ticks = numbers, codes, ticks
        self.signs, self.lineage = signs, lineage

    @staticmethod
    def none() -> _Items:
        numbers = np.zeros(0, np.int64)
        return _Items(numbers, numbers, numbers, np.zeros(0, np.int8), np.zeros((0, 1), np.int64))

    @staticmethod
    def joined(one: _Items, other: _Items) -> _Items:
        return _Items(
            np.concatenate([one.numbers, other.numbers]),
            np.concatenate([one.codes, other.codes]),
            np.concatenate([one.ticks, other.ticks]),
            np.concatenate([one.signs, other.signs]),
            stacked([one.lineage, other.lineage]),
        )

    def take(self, which: Ints | Mask) -> _Items:
        return _Items(
            self.numbers[which],
            self.codes[which],
            self.ticks[which],
            self.signs[which],
            self.lineage[which],
        )

    def save(self) -> Tree:
        return [self.numbers, self.codes, self.ticks, self.signs, self.lineage]
