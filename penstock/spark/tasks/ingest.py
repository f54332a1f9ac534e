"""Before the shuffle: the rows that a task reads become one message for every bucket.

The task stamps progress and quarantines rows that cannot take part, once for all ways on which the
tuples go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.model.clock import Clock, SystemClock
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.batch import Batch, signed_record
from penstock.operators.operator import Progress
from penstock.plan.nodes.stateless import Scan
from penstock.promises.ingest import Ingest
from penstock.sources.fitting.arrow_columns import fit_batches
from penstock.sources.rejects import RejectKind, RejectLog, rejects_batch
from penstock.sources.source import Chunk
from penstock.spark.plan.readings import StreamReading
from penstock.spark.sources.feed import Portion
from penstock.spark.sources.stamps import last_stamp
from penstock.spark.tasks.bounds import TaskBounds
from penstock.spark.tasks.chain import Chain
from penstock.spark.tasks.kit import Kit
from penstock.spark.tasks.messages import (
    MANY_ROWS,
    Packed,
    PackedKind,
    pack_rows,
    stream_read,
)
from penstock.spark.tasks.reports import Reports
from penstock.spark.tasks.step_work import StepName, StepWork, work_done
from penstock.spark.tasks.way import ColumnsOfScan, TaskSaid, Way, policy_of


class IngestTask:
    """One reading of a stream in one task of one micro-batch."""

    def __init__(
        self,
        reading: StreamReading,
        task: int,
        kits: Sequence[Kit],
        strict: bool = False,
        in_order: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """`in_order` unless the rows come as a table, which has no order to be late in; `kits` are
        those of the ways to stages, of which there is one at least."""
        self._task = task
        self._in_order = in_order
        self._counts = reading.counts
        self._analyzed = reading.analyzed
        self._scan = scan = reading.scan
        self._clock = clock = clock or SystemClock()
        self._log = RejectLog(strict)
        policy = policy_of(scan)
        known = policy is not None and not scan.stream.is_latent
        self._bounds = TaskBounds(policy.rule) if policy is not None and known else None
        self._ingest = Ingest(scan, clock, self._log, self._bounds, kits[0].sub_sources(scan))
        pairs = zip(reading.ways, kits, strict=True)
        self._ways = [Way(way, scan, kit, clock, in_order) for way, kit in pairs]
        self._ends = [
            (ColumnsOfScan(scan, end.entry.leaf), Chain(end.entry.steps, clock), end)
            for end in reading.ends
            if isinstance(end.entry.leaf, Scan)
        ]
        self._high: Bound = BEGINNING
        self._sent = 0
        self._joins: list[str] = []
        self._leaves: list[str] = []
        self._portions = 0  # up to which one the feed has been read

    def fitted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
        """Batches of a DataFrame in the schema of the stream."""
        schema = self._scan.stream.input_schema
        for batch in fit_batches(batches, schema, "", self._ingest.rejects):
            yield Chunk(batch)

    def run_portions(self, portions: list[Portion], directory: Path) -> Iterator[Packed]:
        """What a feed says, in order."""
        schema = self._scan.stream.input_schema

        def chunks() -> Iterator[Chunk]:
            for portion in portions:
                self._ingest.begin_at("", portion.rows_before)
                yield from portion.read(schema, self._ingest.rejects, directory)

        self._portions = max(portion.number for portion in portions) + 1
        self._joins = [name for portion in portions for name in portion.joins]
        progress = self._scan.stream.progress
        if progress is not None and progress.per_file:  # every file is read as a whole
            self._leaves = [file.name for portion in portions for file in portion.files]
        promises = [portion.promise for portion in portions if portion.promise is not None]
        ended = any(portion.ends for portion in portions)
        return self.run(chunks(), ended, max(promises, default=None))

    def run(
        self, chunks: Iterator[Chunk], ended: bool = False, promise: int | None = None
    ) -> Iterator[Packed]:
        """`promise`: no later tuple is below it."""
        for chunk in chunks:
            for item in self._ingest.on_chunk(chunk):
                if isinstance(item, Batch):
                    yield from self._take(item if self._in_order else item.without_broken())
                elif isinstance(item, Progress):
                    self._high = max([self._high, *item.high.values()])
                    for way in self._ways:
                        way.tell(item)
        yield from self._messages(TaskSaid(*self._said(), self._leaves, promise, ended))
        yield from self._account()

    def _take(self, batch: Batch) -> Iterator[Packed]:
        for columns, chain, end in self._ends:
            for rows in chain.batches(columns.batch(batch)):
                payload = pack_rows(signed_record(rows))
                yield Packed(self._own, PackedKind.ROWS, payload, query=end.query)
        bounds = self._bounds
        if bounds is not None:
            places = bounds.places
            if places is None and bounds.place:  # without any, all are of the first sub-source
                places = np.full(batch.num_rows, bounds.place)
            batch = replace(batch, places=places, numbers=bounds.numbers)
        for way in self._ways:
            for _ in way.take(batch):
                if sum(each.waiting for each in self._ways) >= MANY_ROWS:
                    yield from self._messages(TaskSaid(*self._said(), [], more=True))

    # --- out -------------------------------------------------------------------------------------

    @property
    def _own(self) -> int:
        """The key under which things go on that are not for the buckets of a stage."""
        return self._ways[0].config.bucket_keys[0]

    def _said(self) -> tuple[Reports | None, Bound, list[str]]:
        return self._reports(), self._high, self._joins

    def _messages(self, said: TaskSaid) -> Iterator[Packed]:
        for way in self._ways:
            yield from way.messages(said, (self._task << 32) + self._sent)
            self._sent += 1

    def _reports(self) -> Reports | None:
        if self._bounds is None:
            return None
        names = self._ingest.sub_source_names(self._bounds.codes)  # in the order of appearance
        reports = self._bounds.reports(names)
        return reports if self._in_order else reports.without_promises()

    def _work(self) -> Iterator[tuple[StepName, StepWork]]:
        for way in self._ways:
            yield from way.work()
        for _, chain, end in self._ends:
            yield from chain.work(0, end.number)

    def _account(self) -> Iterator[Packed]:
        rejects = self._log.take()
        if self._analyzed:
            yield Packed(self._own, PackedKind.STATUS, work_done(self._work()))
        stamped = last_stamp(self._clock)
        if not self._counts and stamped is None:
            return
        read = self._ingest.read + self._log.count(RejectKind.BAD_ROW) if self._counts else 0
        if rejects and self._counts:
            payload = pack_rows(rejects_batch(rejects))
            yield Packed(self._own, PackedKind.REJECTED, payload, rejected=len(rejects))
        status = stream_read(self._scan.stream.name, self._portions, stamped)
        yield Packed(self._own, PackedKind.STATUS, status, read=read)
