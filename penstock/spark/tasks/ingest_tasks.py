"""Tasks that read streams: rows become one message for every bucket of the stages they feed, or
pass to the end if no stage is on their path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.io.formats.arrow import fit_batches
from penstock.io.sources.rejects import RejectKind, RejectLog, rejects_batch
from penstock.io.sources.source import Chunk
from penstock.kernel.batch import Batch, signed_record
from penstock.kernel.operator import Progress
from penstock.kernel.progress.ingest import Ingest
from penstock.model.clock import Clock, SystemClock
from penstock.model.punctuation import BEGINNING, Bound
from penstock.plan.nodes.node import Scan
from penstock.runs.answer import Account
from penstock.spark.run.result_columns import FrameColumns
from penstock.spark.session.worker_errors import brief_errors, freeze_imports
from penstock.spark.sources.feed import Portion, last_stamp, portions_in, task_clock
from penstock.spark.stages import StreamPaths
from penstock.spark.tasks.messages import (
    MANY_ROWS,
    Packed,
    PackedKind,
    Reports,
    StepName,
    StepWork,
    TaskBounds,
    pack_rows,
    packed_batch,
    stream_read,
    work_done,
)
from penstock.spark.tasks.paths import ColumnsOfScan, TaskCache, TaskPath, TaskReport, policy_of
from penstock.spark.tasks.segments import StatelessSegment

# Fewer and larger batches than Spark delivers.

_AT_ONCE = 1 << 17  # rows that a task handles together


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _AT_ONCE:
            yield pa.concat_batches(waiting) if len(waiting) > 1 else batch
            waiting, rows = [], 0
    if rows:
        yield pa.concat_batches(waiting) if len(waiting) > 1 else waiting[0]


# Paths to stages: the rows that a task reads become one message for every bucket.
#
# The task stamps progress and rejects rows that cannot take part, once for all paths of the scan.


class IngestTask:
    """One scan of a stream in one task of one micro-batch."""

    def __init__(
        self,
        reading: StreamPaths,
        task: int,
        caches: Sequence[TaskCache],
        strict: bool = False,
        in_order: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """`in_order` unless the rows come as a table, which has no order to be late in; `caches`
        are those of the paths to stages, of which there is one at least."""
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
        self._ingest = Ingest(scan, clock, self._log, self._bounds, caches[0].sub_sources(scan))
        pairs = zip(reading.paths, caches, strict=True)
        self._paths = [TaskPath(path, scan, cache, clock, in_order) for path, cache in pairs]
        self._ends = [
            (ColumnsOfScan(scan, end.path.leaf), StatelessSegment(end.path.steps, clock), end)
            for end in reading.ends
            if isinstance(end.path.leaf, Scan)
        ]
        self._high: Bound = BEGINNING
        self._sent = 0
        self._joins: list[str] = []
        self._leaves: list[str] = []
        self._portions = 0  # up to which one the feed has been read

    def fitted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
        """Convert batches of a DataFrame to the schema of the stream."""
        schema = self._scan.stream.input_schema
        for batch in fit_batches(batches, schema, "", self._ingest.rejects):
            yield Chunk(batch)

    def run_portions(self, portions: list[Portion], directory: Path) -> Iterator[Packed]:
        """Run over the portions of a feed, in order."""
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
        """Yield the messages for some chunks; no later tuple is below `promise`."""
        for chunk in chunks:
            for item in self._ingest.on_chunk(chunk):
                if isinstance(item, Batch):
                    yield from self._take(item if self._in_order else item.without_broken())
                elif isinstance(item, Progress):
                    self._high = max([self._high, *item.high.values()])
                    for path in self._paths:
                        path.tell(item)
        yield from self._messages(TaskReport(*self._said(), self._leaves, promise, ended))
        yield from self._account()

    def _take(self, batch: Batch) -> Iterator[Packed]:
        for columns, segment, end in self._ends:
            for rows in segment.batches(columns.batch(batch)):
                payload = pack_rows(signed_record(rows))
                yield Packed(self._own, PackedKind.ROWS, payload, query=end.query)
        bounds = self._bounds
        if bounds is not None:
            places = bounds.places
            if places is None and bounds.place:  # without any, all are of the first sub-source
                places = np.full(batch.num_rows, bounds.place)
            batch = replace(batch, places=places, numbers=bounds.numbers)
        for path in self._paths:
            for _ in path.take(batch):
                if sum(each.waiting for each in self._paths) >= MANY_ROWS:
                    yield from self._messages(TaskReport(*self._said(), [], more=True))

    # --- out -------------------------------------------------------------------------------------

    @property
    def _own(self) -> int:
        """Key under which output goes on that is not for the buckets of a stage."""
        return self._paths[0].config.bucket_keys[0]

    def _said(self) -> tuple[Reports | None, Bound, list[str]]:
        return self._reports(), self._high, self._joins

    def _messages(self, said: TaskReport) -> Iterator[Packed]:
        for path in self._paths:
            yield from path.messages(said, (self._task << 32) + self._sent)
            self._sent += 1

    def _reports(self) -> Reports | None:
        if self._bounds is None:
            return None
        names = self._ingest.sub_source_names(self._bounds.codes)  # in the order of appearance
        reports = self._bounds.reports(names)
        return reports if self._in_order else reports.without_promises()

    def _work(self) -> Iterator[tuple[StepName, StepWork]]:
        for path in self._paths:
            yield from path.work()
        for _, segment, end in self._ends:
            yield from segment.work(0, end.number)

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


# Paths to the end, without a stage, in Arrow.
#
# Rows that are collected or written go through `Passing`, which counts them and rejects those that
# cannot take part; so does a DataFrame for the user that is not a plain Spark plan
# (`catalyst/plain_plans.py`).


class Passing:
    """The function that Spark maps over the rows, or the portions, of a source without a stage."""

    def __init__(
        self,
        reading: StreamPaths,
        feed: str | None,
        strict: bool,
        columns: FrameColumns | None = None,
        stamps: str | None = None,
    ) -> None:
        """Yields all output, packed, or with `columns` the rows of these."""
        self._scan = reading.scan
        self._ends = reading.ends
        self._counts = reading.counts
        self._analyzed = reading.analyzed and columns is None
        self._feed = feed
        self._strict = strict
        self._columns = columns
        self._stamps = stamps

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with brief_errors():
            yield from self._passed(batches)

    def _passed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock = task_clock(self._scan.stream, self._stamps)
        log = RejectLog(self._strict)
        progress = self._scan.stream.progress
        bounds = TaskBounds(progress.policy.rule) if progress is not None else None
        ingest = Ingest(self._scan, clock, log, bounds)
        paths = [
            (ColumnsOfScan(self._scan, end.path.leaf), StatelessSegment(end.path.steps, clock), end)
            for end in self._ends
            if isinstance(end.path.leaf, Scan) and self._gives_rows
        ]
        for chunk in self._chunks(batches, ingest):
            for item in ingest.on_chunk(chunk):
                if isinstance(item, Batch):
                    for columns, segment, end in paths:
                        for passing in segment.batches(columns.batch(item)):
                            rows = signed_record(passing)
                            yield from self._out(PackedKind.ROWS, rows, end.query)
        if self._analyzed:
            done = [work for _, segment, end in paths for work in segment.work(0, end.number)]
            yield packed_batch([Packed(0, PackedKind.STATUS, work_done(done))])
        status = stream_read(self._scan.stream.name, self._upto, last_stamp(clock))
        read = ingest.read + log.count(RejectKind.BAD_ROW)
        rejects = log.take()
        if rejects and self._counts:
            yield from self._out(PackedKind.REJECTED, rejects_batch(rejects))
        if self._counts:
            yield from self._count(Account(read, 0, len(rejects)), status)
        freeze_imports()

    @property
    def _gives_rows(self) -> bool:
        return self._columns is None or self._columns.kind is PackedKind.ROWS

    def _out(
        self, kind: PackedKind, rows: pa.RecordBatch, query: int = 0
    ) -> Iterator[pa.RecordBatch]:
        if self._columns is None:
            yield packed_batch([Packed(0, kind, pack_rows(rows), query=query)])
        elif kind is self._columns.kind:
            yield from self._columns.fitted(pa.Table.from_batches([rows])).to_batches()

    def _count(self, account: Account, status: bytes) -> Iterator[pa.RecordBatch]:
        if self._columns is None:
            yield packed_batch([Packed(0, PackedKind.STATUS, status, **asdict(account))])
        else:
            yield from self._columns.counted(account).to_batches()

    def _chunks(self, batches: Iterator[pa.RecordBatch], ingest: Ingest) -> Iterator[Chunk]:
        schema = self._scan.stream.input_schema
        self._upto = 0
        if self._feed is None:
            for batch in fit_batches(joined(batches), schema, "", ingest.rejects):
                if batch.num_rows:
                    yield Chunk(batch)
            return
        for portion in portions_in(batches):
            ingest.begin_at("", portion.rows_before)
            yield from portion.read(schema, ingest.rejects, Path(self._feed))
            self._upto = portion.number + 1
