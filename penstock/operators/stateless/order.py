"""EMIT IN ORDER: rows wait until progress has passed them, and leave sorted.

A row below the bound that held before it is late: what should follow it may have left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.batch import SIGN
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.batch import Batch, from_signed_record, signed_record
from penstock.operators.groups.grouped import InTime
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.revising.amendment import Forgiving
from penstock.operators.ticks import to_ticks
from penstock.physical.asked import Asked
from penstock.plan.expressions import Column, Expression
from penstock.plan.query import QueryPlan
from penstock.state.chunks import ChunkStore


class InOrder(Base):
    """By the first column that progresses.  Rows that may be revised do not wait: they are taken
    back at any time, so only those too late to count are set aside."""

    def __init__(self, query: QueryPlan, asked: Asked | None = None) -> None:
        field = query.progress[0].field
        self._name, self._type = field.qualified, field.type
        self._signed = query.signed
        self._names = [each.qualified for each in query.schema] + [SIGN] * query.signed
        columns: list[Expression] = [Column.of(field)]
        self._in_time = (
            InTime(columns, query.input)
            if asked is None
            else Forgiving(columns, query.input, asked)
        )
        self._waits = asked is None
        self._held: list[pa.RecordBatch] = []

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.broken is not None:
            batch, _, late = self._in_time.split_signed(batch)
            yield from late
        if batch.num_rows == 0:
            return
        if self._waits:
            self._held.append(signed_record(batch, always=self._signed))
        else:
            yield batch

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = END if progress.ended else progress.bounds.get(self._name, BEGINNING)
        if self._held and bound > BEGINNING:
            yield from self._released(bound)
        yield progress

    def _released(self, bound: Bound) -> Iterator[Batch]:
        held = pa.Table.from_batches(self._held).combine_chunks().to_batches()
        self._held = []
        for batch in held:  # one, or none if there were no rows
            passes = self._passed(batch.column(self._name), bound)
            rows = np.flatnonzero(passes)
            if len(rows) < batch.num_rows:
                self._held.append(batch.filter(pa.array(~passes)))
            if len(rows):
                released = batch.take(pa.array(rows))
                order = pc.sort_indices(released.column(self._name))
                yield from_signed_record(released.take(order))

    def _passed(self, column: pa.Array, bound: Bound) -> np.typing.NDArray[np.bool_]:
        if bound == END:
            return np.ones(len(column), np.bool_)
        passed = np.zeros(len(column), np.bool_)  # NULL comes last
        known = np.asarray(column.is_valid())
        passed[known] = to_ticks(column.drop_null(), self._type) < int(bound)
        return passed

    def rows_held(self) -> int:
        return sum(batch.num_rows for batch in self._held)

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        if self._held:
            batch = pa.Table.from_batches(self._held).combine_chunks().to_batches()[0]
            store.put("held", batch)
        else:
            store.drop("held")

    def load(self, store: ChunkStore) -> None:
        held = store.get("held")
        if held is not None:
            # the columns are the same, but may be called something else by now
            self._held = [held.rename_columns(self._names)]
