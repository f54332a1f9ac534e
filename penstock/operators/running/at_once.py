"""Windows and groups that complete, under EMIT CHANGES: what a batch changes is said with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from penstock.operators.batch import Batch
from penstock.operators.metrics import Metrics
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Operator, Progress, at_once
from penstock.state.chunks import ChunkStore


class AnswersEarly(Operator, Protocol):
    def early(self) -> Iterator[Item]:
        """Provisional results of what has changed since this was last asked for."""
        ...


class AtOnce(Base):
    """An operator whose early answers come with every batch, not by a clock."""

    def __init__(self, operator: AnswersEarly) -> None:
        self.operator = operator

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        yield from self.operator.on_batch(port, batch)
        yield from self.operator.early()

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        return self.operator.on_progress(port, progress)

    def metrics(self) -> Metrics:
        return self.operator.metrics()

    def rows_held(self) -> int:
        return self.operator.rows_held()

    def open_results(self) -> OpenResults:
        return self.operator.open_results()

    def save(self, store: ChunkStore) -> None:
        self.operator.save(store)

    def load(self, store: ChunkStore) -> None:
        self.operator.load(store)
