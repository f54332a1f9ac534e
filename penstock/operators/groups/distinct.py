"""DISTINCT: a tuple leaves when it is first seen, and is forgotten when the bound has passed it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.first_rows import first_rows
from penstock.operators.batch import Batch
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.folding.slices import Slices
from penstock.operators.groups.grouped import InTime
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregates import Distinct
from penstock.state.chunks import ChunkStore


class DistinctOperator(Base):
    def __init__(self, node: Distinct) -> None:
        self.schema = node.schema.arrow
        self._in_time = InTime([Column.of(each.field) for each in node.progress], node.input)
        types = [field.type for field in node.schema]
        self._seen = Slices(lambda: KeyCodes(types))

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, keys, late = self._in_time.split(batch)
        yield from late
        for seen, part, _ in self._seen.parts(given, keys):
            known = len(seen)
            codes = seen.encode(part.columns, part.num_rows)
            first, _ = first_rows(codes)
            new = first[codes[first] >= known]
            if len(new):
                columns = [_shown(column) for column in part.take(pa.array(new)).columns]
                yield Batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        self._seen.forget(self._in_time.promised(progress)[0])
        yield progress

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        self._seen.save(store)

    def load(self, store: ChunkStore) -> None:
        if store.get("newest") is not None:
            self._seen.load(store)


def _shown(column: pa.Array) -> pa.Array:
    """0.0 for −0.0, which is the same value."""
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column
