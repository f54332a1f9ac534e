"""Signed items that are kept: rows, and beside them times, signs, lineage and some tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.model.punctuation import Bound
from penstock.operators.batch import Batch, Signs
from penstock.operators.joins.kept_tuples import KeptTuples
from penstock.operators.signed.lineage import happening_order, lineage_of, signs_of, stacked
from penstock.state.chunks import ChunkStore, required


class KeptItems:
    """`tags` are numbers that whoever keeps the items has for each, so many columns of them."""

    def __init__(self, schema: pa.Schema, tags: int = 0) -> None:
        self._schema = schema
        self._rows = KeptTuples(schema)
        self.numbers: Ints = np.zeros(0, np.int64)
        self.ticks: Ints = np.zeros(0, np.int64)
        self.signs: Signs = np.zeros(0, np.int8)
        self.lineage: Ints = np.zeros((0, 1), np.int64)
        self.tags: Ints = np.zeros((tags, 0), np.int64)

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, batch: Batch, ticks: Ints, tags: Sequence[Ints] = ()) -> None:
        if batch.num_rows == 0:
            return
        self.numbers = np.concatenate([self.numbers, self._rows.add(batch.rows)])
        self.ticks = np.concatenate([self.ticks, ticks])
        self.signs = np.concatenate([self.signs, signs_of(batch)])
        self.lineage = stacked([self.lineage, lineage_of(batch)])
        own = np.stack(list(tags)) if len(self.tags) else np.zeros((0, batch.num_rows), np.int64)
        self.tags = np.concatenate([self.tags, own], axis=1)

    def batch(self, which: Ints) -> Batch:
        """Some of them, by their places."""
        columns = self._rows.columns(self.numbers[which])
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return Batch(rows, self.signs[which], lineage=self.lineage[which])

    def remove(self, which: Mask) -> None:
        if not which.any():
            return
        self._rows.forget(self.numbers[which])
        left = ~which
        self.numbers, self.ticks = self.numbers[left], self.ticks[left]
        self.signs, self.lineage = self.signs[left], self.lineage[left]
        self.tags = self.tags[:, left]

    def below(self, bound: Bound) -> tuple[Batch, Ints, Ints] | None:
        """Take out the items below a bound, in the order in which they happen; their ticks and
        tags."""
        due = self.ticks < bound
        if not due.any():
            return None
        places = np.flatnonzero(due)
        places = places[
            happening_order(self.ticks[places], self.signs[places], self.lineage[places])
        ]
        found = self.batch(places), self.ticks[places], self.tags[:, places]
        self.remove(due)
        return found

    def save(self, store: ChunkStore) -> None:
        self._rows.save(store)
        beside = {"numbers": self.numbers, "ticks": self.ticks, "signs": self.signs}
        store.put("items", {**beside, "lineage": self.lineage, "tags": self.tags})

    def load(self, store: ChunkStore) -> None:
        self._rows.load(store)
        saved = required(store, "items")
        self.numbers, self.ticks, self.signs = saved["numbers"], saved["ticks"], saved["signs"]
        self.lineage, self.tags = saved["lineage"], saved["tags"]
