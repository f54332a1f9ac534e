"""Ways from a stream to the end without a stateful node: in Catalyst as a whole, or in Arrow.

What is collected or written goes through `Passing`, which counts the rows that were read and sets
aside those that cannot take part.  A DataFrame that is handed to the user is a plain Spark plan
(`plain`) where Spark gives exactly Penstock's values and no row has to be set aside: then Catalyst
pushes filters into the scan and leaves out columns that nobody needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from penstock.model.clock import SystemClock
from penstock.model.schema import Schema
from penstock.operators.batch import Batch, signed_record
from penstock.plan.nodes.stateless import Filter, Project, Scan, Stamp
from penstock.plan.nodes.unnest import Unnest
from penstock.plan.properties.can_fail import may_fail
from penstock.promises.ingest import Ingest
from penstock.runs.answer import Account
from penstock.sources.fitting.arrow_columns import fit_batches
from penstock.sources.rejects import RejectKind, RejectLog, rejects_batch
from penstock.sources.source import Chunk
from penstock.spark.catalyst.columns import column_or_reason, quoted
from penstock.spark.catalyst.types import holds_as_declared, spark_type
from penstock.spark.frames.columns import FrameColumns
from penstock.spark.plan.readings import StreamReading
from penstock.spark.plan.stages import Branch, Entry, Step, TableStep
from penstock.spark.sources.feed import portions_in
from penstock.spark.tasks.bounds import TaskBounds
from penstock.spark.tasks.chain import Chain
from penstock.spark.tasks.coalesced import joined
from penstock.spark.tasks.messages import Packed, PackedKind, pack_rows, packed_batch, stream_read
from penstock.spark.tasks.step_work import work_done
from penstock.spark.tasks.way import ColumnsOfScan
from penstock.spark.tasks.worker_memory import settle


class Passing:
    """The function that Spark maps over the rows, or the portions, of a source."""

    def __init__(
        self,
        reading: StreamReading,
        feed: str | None,
        strict: bool,
        columns: FrameColumns | None = None,
    ) -> None:
        """Gives everything that comes out, packed, or with `columns` the rows that they are for."""
        self._scan = reading.scan
        self._ends = reading.ends
        self._counts = reading.counts
        self._analyzed = reading.analyzed and columns is None
        self._feed = feed
        self._strict = strict
        self._columns = columns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock, log = SystemClock(), RejectLog(self._strict)
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
        status = stream_read(self._scan.stream.name, self._upto)
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


# --- plain Spark plans ---------------------------------------------------------------------------


def plain(entry: Entry, frame: DataFrame) -> DataFrame | str:
    """The rows of an entry by Catalyst alone, or why that cannot be.  `columns.SETTINGS` hold."""
    assert isinstance(entry.leaf, Scan)
    reason = needs_ingest(entry.leaf, frame.schema)
    if reason is not None:
        return reason
    schema = entry.leaf.schema
    frame = frame.select(
        *(frame[quoted(each.name)].cast(spark_type(each.type)) for each in schema)
    ).toDF(*schema.names)
    failing = False
    for step in entry.steps:
        if failing and not isinstance(step, Branch):
            return "an error could be lost: Spark may drop rows before a column that fails"
        made = _applied(step, frame)
        if isinstance(made, str):
            return made
        frame = made
        failing = isinstance(step, Project) and any(may_fail(c.expression) for c in step.columns)
    return frame


def needs_ingest(scan: Scan, given: spark.StructType) -> str | None:
    """Why rows have to be looked at before they take part; None if they need not."""
    stream = scan.stream
    if stream.progress is not None:
        return f"stream {stream.name} progresses, so rows without a progress value are set aside"
    names = [name.lower() for name in given.names]
    if len(set(names)) < len(names):
        return "columns differ in the case of letters only"
    types = {field.name: field.dataType for field in given}
    for field in stream.schema:
        found = types.get(field.name)
        if found is None or not holds_as_declared(found, field.type):
            return f"column {field.name} is {found and found.simpleString()}, not {field.type}"
    return None


def _applied(step: Step, frame: DataFrame) -> DataFrame | str:
    match step:
        case Filter():
            if may_fail(step.predicate):
                return f"{step.predicate} may fail, and Spark may not notice"
            holds = column_or_reason(step.predicate, step.input.schema)
            return holds if isinstance(holds, str) else frame.where(holds)
        case Project():
            return _projected(step, step.input.schema, frame)
        case Branch():
            return frame.toDF(*step.union.schema.names)
        case Unnest():
            return "items are taken apart in Arrow"
        case Stamp():
            return "tuples are stamped by the kernel's clock"
        case TableStep():
            return "tuples are looked up in a table"


def _projected(step: Project, schema: Schema, frame: DataFrame) -> DataFrame | str:
    columns = []
    for named in step.columns:
        column = column_or_reason(named.expression, schema)
        if isinstance(column, str):
            return column
        columns.append(column.cast(spark_type(named.expression.type)).alias(named.name))
    return frame.select(*columns)
