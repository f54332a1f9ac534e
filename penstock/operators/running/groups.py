"""Aggregates without a window (EMIT CHANGES): the row of a group is taken back, and given anew,
whenever a batch changes it.

What has been said of a group follows from its partial results before the batch, so nothing else is
kept of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints
from penstock.operators.batch import Batch
from penstock.operators.folding.folder import Folder
from penstock.operators.metrics import Metrics, bytes_of
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.revising.above import Above
from penstock.operators.revising.emitted import Emitted, Groups
from penstock.operators.revising.provisional import Provisional, provisional
from penstock.operators.revising.revisions import joined, signed, typed
from penstock.operators.running.contents import GroupContents, contents_of
from penstock.operators.ticks import to_ticks
from penstock.physical.asked import Asked
from penstock.plan.nodes.aggregates import GroupAggregate
from penstock.state.chunks import ChunkStore

_NONE: Codes = np.zeros(0, np.int64)


class RunningGroups(Base):
    def __init__(self, node: GroupAggregate, asked: Asked | None = None) -> None:
        self.node = node
        self.schema = node.schema.arrow
        time = node.time
        self._time_type = None if time is None else time.type
        self._time = None if time is None else compile_expression(time, node.input.schema)
        self._above = None if asked is None else Above.of(asked.above)
        folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self._contents: GroupContents = contents_of(node, folder)
        self._failing: Codes = _NONE  # groups whose results have no value as it is

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        signs = batch.signs
        if signs is not None and not (signs < 0).any():
            signs = None
        change = self._contents.change(batch.rows, self._positions(batch.rows), signs)
        before = self._results(change.touched)
        self._contents.take_in(change)
        now = self._results(change.touched)
        left = np.setdiff1d(self._failing, change.touched, assume_unique=True)
        self._failing = np.union1d(left, now.failing)
        yield from self._said(before, now)
        self._contents.forget(self._renumber)

    def _positions(self, rows: pa.RecordBatch) -> Ints:
        if self._time is None or self._time_type is None:
            return np.zeros(rows.num_rows, np.int64)
        return to_ticks(self._time(rows), self._time_type)

    def _results(self, touched: Codes) -> Provisional:
        """Of some groups, as far as there is something in them."""
        codes = self._contents.present(touched)
        return provisional(self._finish, codes)

    def _finish(self, codes: Codes) -> list[pa.Array]:
        keys = self._contents.folder.keys.take(codes)
        columns = typed([*keys, *self._contents.results(codes)], self.schema.types)
        if self._above is not None:
            self._above.attempt(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        return columns[len(keys) :]

    def _said(self, before: Provisional, now: Provisional) -> Iterator[Item]:
        old, new = Groups(before.codes, before.columns), Groups(now.codes, now.columns)
        taken, given = Emitted(old).revise(new)
        said = [(each, sign) for each, sign in ((taken, -1), (given, 1)) if each]
        if not said:
            return
        keys = self._contents.folder.keys
        rows = joined([each.in_order(keys.order_of(each.codes)) for each, _ in said])
        signs = [np.full(len(each), sign, np.int8) for each, sign in said]
        yield signed([*keys.take(rows.codes), *rows.columns], self.schema, np.concatenate(signs))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        if progress.ended and len(self._failing):
            error = self._results(self._failing).error
            assert error is not None
            raise error  # nothing can change it any more
        yield Progress(ended=progress.ended)

    def _renumber(self, place: Codes) -> None:
        self._failing = place[self._failing]

    def metrics(self) -> Metrics:
        groups = {"groups kept": len(self._contents)}
        return Metrics(self.rows_held(), bytes_of(vars(self)), 0, groups)

    def rows_held(self) -> int:
        return self._contents.rows_held

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN  # all of them are out, as they are

    def save(self, store: ChunkStore) -> None:
        self._contents.save(store)
        store.put("run", {"failing": self._failing})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._contents.load(store)
            self._failing = saved["failing"]
