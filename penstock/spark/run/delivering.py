"""What comes out of a job, unpacked and handed to the queries that it is for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.operators.batch import from_signed_record
from penstock.operators.measured import OperatorStatus
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.runs.adapting.decision import Decision
from penstock.runs.gathered import in_order
from penstock.runs.status import SourceStatus
from penstock.sources.rejects import Reject
from penstock.spark.run.outcome import Receiver, Tally, all_signed, rejects_of
from penstock.spark.tasks.messages import PackedKind, unpack_rows
from penstock.state.chunks import Tree, unpack


def deliver(
    packed: pa.Table,
    receiver: Receiver,
    order: str | None = None,
    rejects: Sequence[Reject] = (),
) -> Tally:
    """For a job with one query: see `deliver_all`."""
    (tally,) = deliver_all(packed, [Recipient(receiver, order)], [rejects])
    return tally


def deliver_all(
    packed: pa.Table, recipients: Sequence[Recipient], rejects: Sequence[Sequence[Reject]]
) -> list[Tally]:
    """Hand packed rows to those who want them, by the numbers of their queries.  `rejects` are
    rows that the driver has found, for each of them."""
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
        elif "work" not in status:  # which is for those who analyze
            all_of[query].hear(status, rows.count("late", place))
    return [delivery.end() for delivery in all_of]


@dataclass(frozen=True)
class Recipient:
    """Who gets what comes out for a query: its results in the order of a column if one is named,
    and what is read and rejected of its `streams` (None: of all)."""

    receiver: Receiver
    order: str | None = None
    streams: Collection[str] | None = None

    def reads(self, stream: str) -> bool:
        return self.streams is None or stream in self.streams


class _Rows:
    """Packed rows by their kinds."""

    def __init__(self, packed: pa.Table) -> None:
        self._packed = packed
        self._queries = packed.column("query").to_pylist()
        self._places: dict[int, list[int]] = {}
        for place, kind in enumerate(packed.column("kind").to_pylist()):
            self._places.setdefault(kind, []).append(place)

    def of(self, kind: PackedKind) -> Iterator[tuple[int, int, bytes]]:
        """The query, the place and the payload of each."""
        payloads = self._packed.column("payload")
        for place in self._places.get(kind, ()):
            yield self._queries[place], place, payloads[place].as_py()

    def count(self, name: str, place: int) -> int:
        return int(self._packed.column(name)[place].as_py())


@dataclass
class _Delivery:
    """To one query."""

    to: Recipient
    tally: Tally = field(default_factory=Tally)
    _rows: list[pa.RecordBatch] = field(default_factory=list)  # that wait for their order
    _sources: dict[str, SourceStatus] = field(default_factory=dict)  # what is said last counts
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

    def hear(self, status: Tree, late: int) -> None:
        """How a bucket is doing; a window may be open in several of them."""
        tally = self.tally
        tally.late += late
        if not status:
            return
        self._sources |= {each["stream"]: SourceStatus(**each) for each in status["sources"]}
        tally.decisions += map(Decision.load, status["decisions"])
        for each in status["operators"]:
            stage, told = each["stage"], OperatorStatus.load(each["operator"])
            known = tally.operators.get(stage)
            tally.operators[stage] = told if known is None else known.plus(told)
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
