"""What leaves a bucket: results, late tuples and progress, packed for the end or for the buckets of
the next stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter_ns

import numpy as np

from penstock.model.clock import Clock
from penstock.operators.batch import Batch, signed_record
from penstock.operators.operator import Progress
from penstock.operators.signed.lineage import made_of
from penstock.spark.plan.config import Destination, StageConfig
from penstock.spark.stateful.merging import order_columns, placed
from penstock.spark.tasks.chain import Chain
from penstock.spark.tasks.kit import Kit, Outgoing
from penstock.spark.tasks.messages import (
    MANY_ROWS,
    Message,
    Packed,
    PackedKind,
    RowsPiece,
    pack_rows,
)
from penstock.spark.tasks.step_work import FOLDING, StepName, StepWork


class Leaving:
    """One of the places that the results of a bucket go to, and by which steps."""

    def __init__(
        self, config: StageConfig, destination: Destination, bucket: int, clock: Clock
    ) -> None:
        self.config = config
        self.destination = destination
        self.bucket = bucket
        self._tail = Chain(destination.tail.steps, clock)
        fed = destination.stage
        self.kit = Kit(fed, destination.entry) if fed is not None else None
        self._columns = order_columns(config.stage, fed.stage) if fed is not None else None
        self.sent = 0  # messages, since the bucket is here
        self._folded = StepWork()

    @property
    def key(self) -> int:
        """Under which things go on that are not for the buckets of the next stage."""
        fed = self.destination.stage
        return self.config.bucket_keys[self.bucket] if fed is None else fed.bucket_keys[0]

    def pieces(self, given: Batch) -> Iterator[RowsPiece]:
        """Results after the steps that follow."""
        if not self.config.stage.passes_tuples:
            given = given.without_broken()
        given = replace(given, places=None, numbers=None)  # which were of this stage's sources
        if self._columns is None:
            yield from map(RowsPiece, self._tail.batches(given))
            return
        numbered = replace(given, lineage=made_of(np.arange(given.num_rows)))
        for left in self._tail.batches(numbered):
            assert left.lineage is not None
            order = placed(given.rows, self._columns, left.lineage[:, 0])
            yield RowsPiece(replace(left, lineage=None), order)

    def progress(self, progress: Progress) -> Progress:
        return self._tail.progress(progress)

    def folded(self, batch: Batch, outgoing: list[Outgoing]) -> bool:
        """Whether results have been folded into panes for the next stage."""
        assert self.kit is not None
        begin = perf_counter_ns()
        made = self.kit.fold(batch, outgoing)
        if made is not None:
            self._folded.add(StepWork(batch.num_rows, made, perf_counter_ns() - begin))
        return made is not None

    def work(self) -> list[tuple[StepName, StepWork]]:
        """What has been done on the way to the next stage, or to the end."""
        fed, entry = self.destination.stage, self.destination.entry
        stage = 0 if fed is None else fed.identity.stage
        return [*self._tail.work(stage, entry), (StepName(stage, entry, FOLDING), self._folded)]


class BucketOutput:
    """What a bucket has to say to one of those places in a micro-batch.  Results are packed, or
    folded, and leave as they come: they may be many more than there is room for at once."""

    def __init__(self, leaving: Leaving) -> None:
        self._leaving = leaving
        fed = leaving.destination.stage
        self._outgoing = [Outgoing() for _ in range(fed.buckets if fed is not None else 0)]
        self._waiting = 0  # rows that have not been sent
        self._progress: Progress | None = None

    def tell(self, progress: Progress) -> None:
        self._progress = progress

    def add(self, batch: Batch) -> Iterator[Packed]:
        for piece in self._leaving.pieces(batch):
            yield from self._add_rows(piece)

    def _add_rows(self, piece: RowsPiece) -> Iterator[Packed]:
        leaving = self._leaving
        if leaving.kit is None:
            payload, query = pack_rows(signed_record(piece.batch)), leaving.destination.query
            yield Packed(leaving.key, PackedKind.ROWS, payload, query=query)
            return
        if leaving.kit.maker is None or not leaving.folded(piece.batch, self._outgoing):
            leaving.kit.route(piece, self._outgoing)
        self._waiting += piece.batch.num_rows
        if self._waiting >= MANY_ROWS:
            yield from self._messages(None)

    def rest(self) -> Iterator[Packed]:
        """What has not left."""
        yield from self._messages(self._progress)

    def _messages(self, progress: Progress | None) -> Iterator[Packed]:
        """Results, and progress behind the last of them, for every bucket of the next stage."""
        leaving, destination = self._leaving, self._leaving.destination
        if destination.stage is None or leaving.kit is None:
            return
        leaving.kit.tidy()
        progress = progress and leaving.progress(progress)
        for number, mine in enumerate(self._outgoing):
            message = Message(
                destination.entry,
                leaving.bucket,
                rows=mine.rows,
                panes=mine.panes,
                progress=progress,
            )
            key = destination.stage.bucket_keys[number]
            place = (leaving.bucket << 32) + leaving.sent
            stage = destination.stage.identity.stage
            yield Packed(key, PackedKind.MESSAGE, message.pack(), place, stage=stage)
        leaving.sent += 1
        self._waiting = 0
        self._outgoing = [Outgoing() for _ in self._outgoing]
