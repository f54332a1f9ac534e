"""Stamp: gives tuples of LATENT streams their time, at the operator that first needs one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.batch import Batch
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.ticks import from_ticks
from penstock.plan.identity.identity import origins
from penstock.plan.nodes.stateless import Stamp
from penstock.state.chunks import ChunkStore

_LOWEST = np.iinfo(np.int64).min


class StampOperator(Base):
    """Stamps are in order: where the clock goes back, they stay where they are."""

    def __init__(self, node: Stamp, clock: Clock) -> None:
        self._clock = clock
        self._position = node.column.position(node.schema)
        self._field = node.schema.arrow.field(self._position)
        self._name = node.schema.fields[self._position].qualified
        self._type = node.schema.fields[self._position].type
        self._origins = origins(node.input)
        self._given = Progress()
        self.high: Bound = BEGINNING

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        now = np.fromiter((self._clock.now() for _ in range(batch.num_rows)), np.int64)
        start = _LOWEST if self.high == BEGINNING else int(self.high)
        times = np.maximum.accumulate(np.concatenate([[start], now]))[1:]
        self.high = int(times[-1])
        stamps = from_ticks(times, self._type)
        batch = batch.with_rows(batch.rows.set_column(self._position, self._field, stamps))
        if batch.broken is not None:  # where one progressing column has bounds, all have
            none = np.zeros(batch.num_rows, np.bool_)
            batch = batch.breaking(self._name, times, none)
        yield batch
        yield self._progress()  # the input may have none of its own

    @at_once
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
