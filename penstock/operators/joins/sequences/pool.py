"""Tuples of one input that wait for others: numbers, keys and times in arrays, rows beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import END, Bound
from penstock.operators.joins.kept_tuples import KeptTuples
from penstock.operators.joins.keyed_times import KeyedTimes
from penstock.operators.joins.sequences.equal_keys import NO_KEY
from penstock.operators.joins.sequences.value_order import value_ranks
from penstock.state.chunks import ChunkStore


class InLine(NamedTuple):
    """Tuples in the order of key, time and values."""

    numbers: Ints
    codes: Codes
    ticks: Ints
    times: KeyedTimes


class Pool:
    """What is removed from the pool does not wait any more; its rows stay until it is forgotten."""

    def __init__(self, schema: pa.Schema) -> None:
        self.rows = KeptTuples(schema)
        self.numbers: Ints = np.zeros(0, np.int64)
        self.codes: Codes = np.zeros(0, np.int64)
        self.ticks: Ints = np.zeros(0, np.int64)
        self._lowest: Bound | None = END  # of the ticks, if it has been looked for

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, rows: pa.RecordBatch, codes: Codes, ticks: Ints) -> None:
        self._put(self.rows.add(rows), codes, ticks)

    def _put(self, numbers: Ints, codes: Codes, ticks: Ints) -> None:
        self._lowest = None
        if not len(self.numbers):
            self.numbers, self.codes, self.ticks = numbers, codes, ticks
        else:
            self.numbers = np.concatenate([self.numbers, numbers])
            self.codes = np.concatenate([self.codes, codes])
            self.ticks = np.concatenate([self.ticks, ticks])

    def lowest(self) -> Bound:
        """The lowest tick that waits."""
        if self._lowest is None:
            self._lowest = int(self.ticks.min()) if len(self.ticks) else END
        return self._lowest

    def upto(self, last: Bound) -> Mask:
        """Which tuples are not above a tick."""
        return self.ticks <= last

    def remove(self, which: Mask) -> None:
        self._lowest = None
        kept = np.flatnonzero(~which)
        self.numbers, self.codes = self.numbers[kept], self.codes[kept]
        self.ticks = self.ticks[kept]

    def remove_numbers(self, numbers: Ints) -> None:
        """Tuples that are in the pool."""
        which = np.zeros(len(self.numbers), np.bool_)
        which[np.searchsorted(self.numbers, numbers)] = True  # they ascend, as tuples came
        self.remove(which)

    def remove_below(self, tick: int) -> Ints:
        """Remove the tuples below a tick; their numbers."""
        if self.lowest() >= tick:
            return np.zeros(0, np.int64)
        below = self.ticks < tick
        numbers: Ints = self.numbers[below]
        self.remove(below)
        return numbers

    def of_keys(self, codes: Codes, last: int, keys: int) -> Mask:
        """Which tuples are not above a tick and have one of some keys, of which there are so many;
        a tuple without a key has none of them."""
        wanted = np.zeros(keys + 1, np.bool_)  # the last place is for no key
        wanted[codes] = True
        wanted[NO_KEY] = False
        return wanted[self.codes] & (self.ticks <= last)

    def ranks(self, numbers: Ints) -> Ints:
        """The ranks of tuples by the values of their columns, and then by their numbers."""
        by_number = np.argsort(numbers)
        ranks = np.empty(len(numbers), np.int64)
        ranks[by_number] = value_ranks(self.rows.columns(numbers[by_number]))
        return ranks

    def in_line(self, which: Mask) -> InLine:
        """Some tuples in order."""
        numbers, codes, ticks = self.numbers[which], self.codes[which], self.ticks[which]
        times = KeyedTimes(codes, ticks, lambda tied: self.ranks(numbers[tied]))
        order = times.order
        return InLine(numbers[order], codes[order], ticks[order], times)

    def save(self, store: ChunkStore) -> None:
        self.rows.save(store)

    def load(
        self, store: ChunkStore, of_rows: Callable[[pa.RecordBatch], tuple[Codes, Ints]]
    ) -> None:
        """Keys and times follow from the rows; all that are kept wait again."""
        for numbers, rows in self.rows.load(store):
            self._put(numbers, *of_rows(rows))
