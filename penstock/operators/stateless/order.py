"""EMIT IN ORDER: rows wait until progress has come as far, and leave sorted.

A row below the bound that held before it is late: what should follow it may have left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.batch import SIGN
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import Type
from penstock.operators.batch import Batch, from_signed_record, signed_record
from penstock.operators.groups.grouped import InTime
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.revising.amendment import Forgiving
from penstock.operators.ticks import to_ticks
from penstock.operators.waiting import InTurn, WaitingRows
from penstock.physical.asked import Asked
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.query import QueryPlan
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
        self._held = WaitingRows("held")

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.broken is not None:
            batch, _, late = self._in_time.split_signed(batch)
            yield from late
        if batch.num_rows == 0:
            return
        if self._waits:
            record = signed_record(batch, always=self._signed)
            let_wait(self._held, record, record.column(self._name), self._type)
            yield from _leaving(self._held.take_simultaneous())
        else:
            yield batch

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = END if progress.ended else progress.bounds.get(self._name, BEGINNING)
        yield from _leaving(self._held.take(bound))  # what is yet to come is not below it
        yield Progress(self._kept(bound), progress.high, progress.ended)

    def _kept(self, bound: Bound) -> dict[str, Bound]:
        """What rows that leave later keep.  Those that wait may be behind in other columns, and
        where rows are amended, they come below any bound."""
        return {self._name: bound} if self._waits and bound not in (BEGINNING, END) else {}

    def rows_held(self) -> int:
        return len(self._held)

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        self._held.save(store)

    def load(self, store: ChunkStore) -> None:
        self._held.load(store, self._names)


def _leaving(taken: InTurn | None) -> Iterator[Batch]:
    if taken is not None:
        yield from_signed_record(taken.rows)


def let_wait(held: WaitingRows, rows: pa.RecordBatch, column: pa.Array, sql_type: Type) -> None:
    """Rows that leave in the order of a column; NULLs come last."""
    if column.null_count:
        known = column.is_valid()
        held.add_last(rows.filter(pa.array(~np.asarray(known))))
        rows, column = rows.filter(known), column.drop_null()
    held.add(rows, to_ticks(column, sql_type))
