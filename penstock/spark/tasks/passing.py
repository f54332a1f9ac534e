"""Ways from a stream to the end without a stateful node, in Arrow.

What is collected or written goes through `Passing`, which counts the rows that were read and sets
aside those that cannot take part; so does a DataFrame for the user that is not a plain Spark plan
(`catalyst/plain.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from penstock.operators.batch import Batch, signed_record
from penstock.plan.nodes.stateless import Scan
from penstock.promises.ingest import Ingest
from penstock.runs.answer import Account
from penstock.sources.fitting.arrow_columns import fit_batches
from penstock.sources.rejects import RejectKind, RejectLog, rejects_batch
from penstock.sources.source import Chunk
from penstock.spark.frames.columns import FrameColumns
from penstock.spark.plan.readings import StreamReading
from penstock.spark.sources.feed import portions_in
from penstock.spark.sources.stamps import last_stamp, task_clock
from penstock.spark.tasks.bounds import TaskBounds
from penstock.spark.tasks.chain import Chain
from penstock.spark.tasks.coalesced import joined
from penstock.spark.tasks.messages import Packed, PackedKind, pack_rows, packed_batch, stream_read
from penstock.spark.tasks.step_work import work_done
from penstock.spark.tasks.way import ColumnsOfScan
from penstock.spark.tasks.worker_errors import said_shortly
from penstock.spark.tasks.worker_memory import settle


class Passing:
    """The function that Spark maps over the rows, or the portions, of a source."""

    def __init__(
        self,
        reading: StreamReading,
        feed: str | None,
        strict: bool,
        columns: FrameColumns | None = None,
        stamps: str | None = None,
    ) -> None:
        """Gives everything that comes out, packed, or with `columns` the rows that they are for."""
        self._scan = reading.scan
        self._ends = reading.ends
        self._counts = reading.counts
        self._analyzed = reading.analyzed and columns is None
        self._feed = feed
        self._strict = strict
        self._columns = columns
        self._stamps = stamps

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with said_shortly():
            yield from self._passed(batches)

    def _passed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock = task_clock(self._scan.stream, self._stamps)
        log = RejectLog(self._strict)
        progress = self._scan.stream.progress
        bounds = TaskBounds(progress.policy.rule) if progress is not None else None
        ingest = Ingest(self._scan, clock, log, bounds)
        ways = [
            (ColumnsOfScan(self._scan, end.entry.leaf), Chain(end.entry.steps, clock), end)
            for end in self._ends
            if isinstance(end.entry.leaf, Scan) and self._gives_rows
        ]
        for chunk in self._chunks(batches, ingest):
            for item in ingest.on_chunk(chunk):
                if isinstance(item, Batch):
                    for columns, chain, end in ways:
                        for passing in chain.batches(columns.batch(item)):
                            rows = signed_record(passing)
                            yield from self._out(PackedKind.ROWS, rows, end.query)
        if self._analyzed:
            done = [work for _, chain, end in ways for work in chain.work(0, end.number)]
            yield packed_batch([Packed(0, PackedKind.STATUS, work_done(done))])
        status = stream_read(self._scan.stream.name, self._upto, last_stamp(clock))
        read = ingest.read + log.count(RejectKind.BAD_ROW)
        rejects = log.take()
        if rejects and self._counts:
            yield from self._out(PackedKind.REJECTED, rejects_batch(rejects))
        if self._counts:
            yield from self._count(Account(read, 0, len(rejects)), status)
        settle()

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
