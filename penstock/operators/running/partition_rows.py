"""What is kept of the partitions of a running order, and which rows decide what comes out of them.

Without a limit these are all rows.  With one, and if no row is ever taken back, only those within
it are kept.  Otherwise every row is kept, but few are looked at (`leading_rows`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.first_rows import different
from penstock.operators.batch import Signs
from penstock.operators.over.partition_sorter import PartitionSorter
from penstock.operators.running.keyed_rows import KeyedRows
from penstock.operators.running.netting import left_over
from penstock.plan.nodes.running_over import RunningOver
from penstock.state.chunks import ChunkStore


class Numbered(NamedTuple):
    """Rows, and the numbers of their partitions."""

    rows: pa.RecordBatch
    codes: Codes

    def take(self, places: Ints) -> Numbered:
        return Numbered(self.rows.take(pa.array(places)), self.codes[places])


class ChangedPartitions(NamedTuple):
    """The rows by which some partitions are answered, before a batch and after it."""

    before: Numbered
    after: Numbered


CodesOf = Callable[[pa.RecordBatch], Codes]


class PartitionRows(ABC):
    @abstractmethod
    def change(self, given: Numbered, signs: Signs) -> ChangedPartitions:
        """Take rows in, or out again."""

    @abstractmethod
    def kept(self) -> list[KeyedRows]: ...

    def __len__(self) -> int:
        return sum(map(len, self.kept()))

    def renumber(self, codes_of: CodesOf) -> None:
        """Partitions have other numbers now."""
        for each in self.kept():
            each.renumbered(codes_of)

    @abstractmethod
    def save(self, store: ChunkStore) -> None: ...

    @abstractmethod
    def load(self, store: ChunkStore, codes_of: CodesOf) -> None: ...


class WholePartitions(PartitionRows):
    def __init__(self, node: RunningOver, sorter: PartitionSorter) -> None:
        self._sorter = sorter
        self._forgets = node.forgets
        takes_back = node.forgets or node.input.takes_back
        self._rows = KeyedRows(node.input.schema.arrow, takes_back)

    def kept(self) -> list[KeyedRows]:
        return [self._rows]

    def change(self, given: Numbered, signs: Signs) -> ChangedPartitions:
        old = Numbered(*self._rows.of(different(given.codes)))
        if not self._forgets:
            self._rows.add(given.rows, given.codes, signs)
            return ChangedPartitions(old, together(old, given, signs))
        now = joined(old, given)
        sorted_now, places = self._sorter.sort(*now)
        within = np.zeros(len(now.codes), np.bool_)
        within[places[self._sorter.within_limit(sorted_now)]] = True
        fresh = np.arange(len(within)) >= len(old.codes)
        changed = np.flatnonzero(within == fresh)  # new ones that stay, others that go
        signs = np.where(within, 1, -1).astype(np.int8)
        self._rows.add(*now.take(changed), signs[changed])
        return ChangedPartitions(old, now.take(np.flatnonzero(within)))

    def save(self, store: ChunkStore) -> None:
        self._rows.save(store)

    def load(self, store: ChunkStore, codes_of: CodesOf) -> None:
        load_rows(self._rows, store, codes_of)


def load_rows(kept: KeyedRows, store: ChunkStore, codes_of: CodesOf) -> None:
    if store.get("runs") is not None:
        for run in kept.load(store):
            kept.resume(run, codes_of(run.rows))


def joined(one: Numbered, other: Numbered) -> Numbered:
    rows = pa.concat_batches([one.rows, other.rows])
    return Numbered(rows, np.concatenate([one.codes, other.codes]))


def together(old: Numbered, given: Numbered, signs: Signs) -> Numbered:
    """Rows that are there, and others that come or go, cancelled by their values."""
    now = joined(old, given)
    left = left_over(now.rows.columns, np.concatenate([ones(len(old.codes)), signs]))
    return now if len(left) == len(now.codes) else now.take(left)


def ones(size: int) -> Signs:
    return np.ones(size, np.int8)
