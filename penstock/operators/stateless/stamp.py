"""Stamp: gives tuples of LATENT streams their time, at the operator that first needs one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.bounds import bound_name
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Item, Progress
from penstock.operators.ticks import from_ticks
from penstock.plan.identity import origins
from penstock.plan.stateless import Stamp
from penstock.state.chunks import ChunkStore

_LOWEST = np.iinfo(np.int64).min


class StampOperator:
    """Stamps are promised in order; where the clock went back, they are marked as late."""

    def __init__(self, node: Stamp, clock: Clock) -> None:
        self._clock = clock
        self._position = node.column.position(node.schema)
        self._field = node.schema.arrow.field(self._position)
        self._name = node.schema.fields[self._position].qualified
        self._type = node.schema.fields[self._position].type
        # where one progressing column has bounds beside it, all have
        self._others = [bound_name(each.field.qualified) for each in node.input.progress]
        self._origins = origins(node.input)
        self._given = Progress()
        self.high: Bound = BEGINNING

    def on_batch(self, port: int, batch: pa.RecordBatch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        now = np.fromiter((self._clock.now() for _ in range(batch.num_rows)), np.int64)
        start = _LOWEST if self.high == BEGINNING else int(self.high)
        highest = np.maximum.accumulate(np.concatenate([[start], now]))
        before = highest[:-1]
        self.high = int(highest[-1])
        batch = batch.set_column(self._position, self._field, from_ticks(now, self._type))
        broken = now < before
        names = batch.schema.names
        if broken.any() or any(name in names for name in self._others):
            for name in self._others:
                if name not in names:
                    batch = batch.append_column(name, pa.nulls(batch.num_rows, pa.int64()))
            batch = batch.append_column(bound_name(self._name), pa.array(before, mask=~broken))
        yield batch
        yield self._progress()  # the input may have none of its own

    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        self._given = progress
        yield self._progress()

    def _progress(self) -> Progress:
        given = self._given
        if self.high == BEGINNING:
            return given
        reached = {self._name: self.high}
        return Progress({**given.bounds, **reached}, {**given.high, **reached}, given.ended)

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        store.put("run", {"high": self.high, "given": self._given.save(self._origins)})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self.high, self._given = saved["high"], Progress.load(saved["given"], self._origins)
