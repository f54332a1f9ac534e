"""Output of a job: its delivery to queries, the counts of micro-batches, and the totals that a
checkpoint keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.io.durable_files import read_json, write_json
from penstock.io.sources.rejects import Reject, RejectKind
from penstock.kernel.batch import Batch, from_signed_record
from penstock.kernel.operator import NOTHING_OPEN, OpenResults, OperatorStatus
from penstock.kernel.state import Tree, unpack
from penstock.model.punctuation import SIGN
from penstock.runs.answer import Account, Decision
from penstock.runs.collected_answer import in_order
from penstock.runs.status import RunProgress, SourceStatus
from penstock.spark.tasks.messages import PackedKind, unpack_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REMEMBERED = 1000  # decisions


class Receiver(Protocol):
    """Sink of the output of one query: results, late tuples, rejected rows."""

    def on_rows(self, batch: Batch) -> None: ...

    def on_late(self, batch: pa.RecordBatch) -> None: ...

    def on_rejects(self, rejects: Sequence[Reject]) -> None: ...

    def commit(self, batch_id: int) -> None:
        """Commit a micro-batch, of which all rows have been delivered.  A batch that failed is
        delivered again."""
        ...


@dataclass
class Tally:
    """Counts of a micro-batch, or of a whole job."""

    read: int = 0
    late: int = 0
    rejected: int = 0
    rows: int = 0
    sources: list[SourceStatus] = field(default_factory=list)
    open_windows: int | None = None  # or groups, where there are no windows; None: not reported
    portions: dict[str, int] = field(default_factory=dict)  # by stream: so many have been read
    stamped: dict[str, int] = field(default_factory=dict)  # by stream: the last of its stamps
    operators: dict[str, OperatorStatus] = field(default_factory=dict)  # by stage, of all buckets
    decisions: list[Decision] = field(default_factory=list)  # of buckets, on their operators

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.read + other.read,
            self.late + other.late,
            self.rejected + other.rejected,
            self.rows + other.rows,
            other.sources or self.sources,
            self.open_windows if other.open_windows is None else other.open_windows,
            {**self.portions, **other.portions},
            {**self.stamped, **other.stamped},
            {**self.operators, **other.operators},
            [*self.decisions, *other.decisions][-_REMEMBERED:],
        )

    @property
    def account(self) -> Account:
        return Account(self.read, self.late, self.rejected)


def all_signed(rows: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Add signs to all batches, if one has them: batches without signs have only insertions."""
    if not any(SIGN in batch.schema.names for batch in rows):
        return rows
    return [
        batch
        if SIGN in batch.schema.names
        else batch.append_column(SIGN, pa.array(np.ones(batch.num_rows, np.int8)))
        for batch in rows
    ]


def rejects_of(batch: pa.RecordBatch) -> list[Reject]:
    return [Reject(**{**row, "kind": RejectKind(row["kind"])}) for row in batch.to_pylist()]


# Progress of a run.


def progress_of(
    tallies: Sequence[Tally],
    counted: Account,
    batches: int,
    rows_per_second: float = 0.0,
    state_bytes: int = 0,
) -> RunProgress:
    """Progress of all queries of a run, which has `counted` rows once for all of them."""
    opened = [tally.open_windows for tally in tallies if tally.open_windows is not None]
    sources = {source.stream: source for tally in tallies for source in tally.sources}
    operators = {name: each for tally in tallies for name, each in tally.operators.items()}
    return RunProgress(
        batches,
        counted.read,
        rows_per_second,
        counted.late,
        counted.rejected,
        sum(tally.rows for tally in tallies),
        state_bytes,
        sum(opened) if opened else None,
        list(sources.values()),
        list(operators.values()),
    )


def tasks_at_work(spark: SparkSession) -> tuple[int, int]:
    """Number of completed tasks, and of all tasks, in the stages that Spark is working on."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    there = [each for each in stages if each is not None]
    return sum(each.numCompletedTasks for each in there), sum(each.numTasks for each in there)


def counted_in(packed: pa.Table, rejects: Sequence[Sequence[Reject]] = ()) -> Account:
    """Counts of tasks and buckets, and of rejected rows of tables."""
    read, late, rejected = (
        pc.sum(packed.column(name)).as_py() or 0 for name in ("read", "late", "rejected")
    )
    return Account(read, late, rejected + max(map(len, rejects), default=0))


# Totals of all runs on a checkpoint, written with every micro-batch.
#
# A micro-batch that is run again after a failure replaces its earlier counts, so everything counts
# once.

_NAME = "account.json"
_NO_BATCH = -1


@dataclass(frozen=True)
class RunTotals:
    """The tally of all micro-batches before the last one, and that of all."""

    batch: int = _NO_BATCH
    before: Tally = field(default_factory=Tally)
    all: Tally = field(default_factory=Tally)

    def with_batch(self, number: int, made: Tally) -> RunTotals:
        before = self.before if number == self.batch else self.all
        return RunTotals(number, before, before.plus(made))

    @property
    def total(self) -> Account:
        return self.all.account

    @property
    def high(self) -> int | None:
        """Highest value of the progressing column in all streams, or None."""
        found = [source.high for source in self.all.sources if source.high > float("-inf")]
        return int(max(found)) if found else None

    def as_of_now(self) -> Tally:
        """Tally at the start of a run: no counts yet, but the progress of the streams is known."""
        return replace(self.all, read=0, late=0, rejected=0, rows=0, decisions=[])

    @staticmethod
    def load(given: dict[str, Any]) -> RunTotals:
        return RunTotals(given["batch"], _tally(given["before"]), _tally(given["all"]))


def have_ended(totals: Sequence[RunTotals]) -> bool:
    """Whether the end of all streams has been answered."""
    sources = [source for own in totals for source in own.all.sources]
    return bool(sources) and all(source.ended for source in sources)


def write_totals(directory: Path, totals: Sequence[RunTotals]) -> None:
    """Write the totals of all queries of a run at once."""
    first, *others = map(asdict, totals)
    content = {"queries": [first, *others]} if others else first
    # without a sync: Spark's own files of the micro-batch are not synced either
    write_json(directory / _NAME, content, sync=False)


def read_totals(directory: Path, queries: int) -> list[RunTotals]:
    given = read_json(directory / _NAME)
    if given is None:
        return [RunTotals() for _ in range(queries)]
    return [RunTotals.load(each) for each in given.get("queries", [given])]


def _tally(given: dict[str, Any]) -> Tally:
    sources = [SourceStatus(**each) for each in given["sources"]]
    decisions = [Decision(**each) for each in given.get("decisions", [])]
    return Tally(**{**given, "sources": sources, "decisions": decisions})


# Delivery: the packed output of a job is unpacked for the queries that it is for.


def deliver(
    packed: pa.Table,
    receiver: Receiver,
    order: str | None = None,
    rejects: Sequence[Reject] = (),
) -> Tally:
    """Deliver the output of a job with one query; see `deliver_all`."""
    (tally,) = deliver_all(packed, [Recipient(receiver, order)], [rejects])
    return tally


def deliver_all(
    packed: pa.Table, recipients: Sequence[Recipient], rejects: Sequence[Sequence[Reject]]
) -> list[Tally]:
    """Deliver packed rows to recipients, by the numbers of their queries.  `rejects` are rows that
    the driver has rejected, for each of them."""
    all_of = [_Delivery(recipient) for recipient in recipients]
    for delivery, own in zip(all_of, rejects, strict=True):
        delivery.reject(own)
    rows = _Rows(packed)
    for _, _, payload in rows.of(PackedKind.REJECTED):
        for batch in unpack_rows(payload).to_batches():
            found = rejects_of(batch)
            for delivery in all_of:
                delivery.reject([each for each in found if delivery.to.reads(each.stream)])
    for query, _, payload in rows.of(PackedKind.LATE):
        for batch in unpack_rows(payload).to_batches():
            all_of[query].to.receiver.on_late(batch)
    for query, _, payload in rows.of(PackedKind.ROWS):
        all_of[query].give(unpack_rows(payload).to_batches())
    for query, place, payload in rows.of(PackedKind.STATUS):
        status = unpack(payload) if payload else {}
        if "read" in status:
            for delivery in all_of:
                delivery.read(status["read"], rows.count("read", place), status)
        elif "work" not in status:  # work is for EXPLAIN ANALYZE
            all_of[query].add_status(status, rows.count("late", place))
    return [delivery.end() for delivery in all_of]


@dataclass(frozen=True)
class Recipient:
    """Recipient of the output of a query: its results, sorted by a column if one is named, and the
    counts and rejected rows of its `streams` (None: of all)."""

    receiver: Receiver
    order: str | None = None
    streams: Collection[str] | None = None

    def reads(self, stream: str) -> bool:
        return self.streams is None or stream in self.streams


class _Rows:
    """Packed rows, by kind."""

    def __init__(self, packed: pa.Table) -> None:
        self._packed = packed
        self._queries = packed.column("query").to_pylist()
        self._places: dict[int, list[int]] = {}
        for place, kind in enumerate(packed.column("kind").to_pylist()):
            self._places.setdefault(kind, []).append(place)

    def of(self, kind: PackedKind) -> Iterator[tuple[int, int, bytes]]:
        """Yield the query, the place and the payload of each row of a kind."""
        payloads = self._packed.column("payload")
        for place in self._places.get(kind, ()):
            yield self._queries[place], place, payloads[place].as_py()

    def count(self, name: str, place: int) -> int:
        return int(self._packed.column(name)[place].as_py())


@dataclass
class _Delivery:
    """Delivery to one query."""

    to: Recipient
    tally: Tally = field(default_factory=Tally)
    _rows: list[pa.RecordBatch] = field(default_factory=list)  # that wait for their order
    _sources: dict[str, SourceStatus] = field(default_factory=dict)  # the last status counts
    _open: dict[str, OpenResults] = field(default_factory=dict)  # by stage

    def reject(self, rejects: Sequence[Reject]) -> None:
        if rejects:
            self.tally.rejected += len(rejects)
            self.to.receiver.on_rejects(rejects)

    def give(self, batches: Sequence[pa.RecordBatch]) -> None:
        if self.to.order is not None:
            self._rows += batches
            return
        for batch in batches:
            self.tally.rows += batch.num_rows
            self.to.receiver.on_rows(from_signed_record(batch))

    def read(self, stream: str, rows: int, status: Tree) -> None:
        if self.to.reads(stream):
            tally, stamped = self.tally, status["stamped"]
            tally.read += rows
            if status["portions"]:
                tally.portions[stream] = status["portions"]
            if stamped is not None:
                tally.stamped[stream] = max(stamped, tally.stamped.get(stream, stamped))

    def add_status(self, status: Tree, late: int) -> None:
        """Add the status of a bucket; a window may be open in several of them."""
        tally = self.tally
        tally.late += late
        if not status:
            return
        self._sources |= {each["stream"]: SourceStatus(**each) for each in status["sources"]}
        tally.decisions += map(Decision.load, status["decisions"])
        for each in status["operators"]:
            stage, operator = each["stage"], OperatorStatus.load(each["operator"])
            known = tally.operators.get(stage)
            tally.operators[stage] = operator if known is None else known.plus(operator)
            opened = OpenResults.load(each["open"])
            self._open[stage] = self._open.get(stage, NOTHING_OPEN) | opened

    def end(self) -> Tally:
        tally = self.tally
        tally.sources = list(self._sources.values())
        if self._open:
            tally.open_windows = sum(each.count for each in self._open.values())
        if self._rows:
            assert self.to.order is not None
            table = in_order(pa.Table.from_batches(all_signed(self._rows)), self.to.order)
            for batch in table.to_batches():
                tally.rows += batch.num_rows
                self.to.receiver.on_rows(from_signed_record(batch))
        return tally
