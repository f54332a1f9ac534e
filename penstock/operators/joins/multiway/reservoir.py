"""Tuples of one input as they came, for as long as a result may have them: what a join goes on from
that finds its results in another way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, Bound
from penstock.state.append_log import AppendLog
from penstock.state.chunks import ChunkStore, Tree


@dataclass(frozen=True, slots=True)
class _KeptBatch:
    rows: pa.RecordBatch
    ticks: Ints
    highest: int


class Reservoir:
    """A piece is what came at a time, and goes away as a whole: nothing is sorted or looked up."""

    def __init__(self, name: str) -> None:
        self._pieces: list[_KeptBatch] = []
        self._log = AppendLog(name)
        self._limit: Bound = BEGINNING

    def add(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        if rows.num_rows:
            piece = _KeptBatch(rows, ticks, int(ticks.max()))
            if piece.highest >= self._limit:
                self._pieces.append(piece)
                self._log.append(rows, piece.highest + 1)

    def forget(self, limit: Bound) -> None:
        """Tuples below it are in no result to come."""
        if limit > self._limit:
            self._limit = limit
            self._pieces = [each for each in self._pieces if each.highest >= limit]
            self._log.pass_(limit)

    def __len__(self) -> int:
        return sum(each.rows.num_rows for each in self._pieces)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Those that are not below the limit."""
        for each in self._pieces:
            if self._limit == BEGINNING or int(each.ticks.min()) >= self._limit:
                yield each.rows
            else:
                yield each.rows.take(pa.array(np.flatnonzero(each.ticks >= self._limit)))

    def save(self, store: ChunkStore) -> None:
        self._log.save(store, lambda: [(each.rows, each.highest + 1) for each in self._pieces])

    def load(self, store: ChunkStore) -> list[Tree]:
        """The pieces that were saved, which are to be added again."""
        return self._log.load(store)

    def add_loaded(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        """A piece that the store has already."""
        if rows.num_rows:
            self._pieces.append(_KeptBatch(rows, ticks, int(ticks.max())))
