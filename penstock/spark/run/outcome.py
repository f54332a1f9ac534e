"""What comes out of a job, unpacked: rows, late tuples, rejects, and how the run is doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.batch import SIGN
from penstock.operators.batch import Batch, from_signed_record
from penstock.operators.measured import OperatorStatus
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.runs.answer import Account
from penstock.runs.gathered import in_order
from penstock.runs.status import SourceStatus
from penstock.sources.rejects import Reject, RejectKind
from penstock.spark.tasks.messages import PackedKind, unpack_rows
from penstock.state.chunks import unpack


class Receiver(Protocol):
    def on_rows(self, batch: Batch) -> None: ...

    def on_late(self, batch: pa.RecordBatch) -> None: ...

    def on_rejects(self, rejects: Sequence[Reject]) -> None: ...

    def commit(self, batch_id: int) -> None:
        """All of a micro-batch has been handed over.  A batch that failed comes again."""
        ...


@dataclass
class Tally:
    """What a micro-batch, or a whole job, has counted."""

    read: int = 0
    late: int = 0
    rejected: int = 0
    rows: int = 0
    sources: list[SourceStatus] = field(default_factory=list)
    open_windows: int | None = None  # or groups, where there are no windows; None: nobody has said
    portions: dict[str, int] = field(default_factory=dict)  # by stream: so many have been read
    operators: dict[str, OperatorStatus] = field(default_factory=dict)  # by stage, of all buckets

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.read + other.read,
            self.late + other.late,
            self.rejected + other.rejected,
            self.rows + other.rows,
            other.sources or self.sources,
            self.open_windows if other.open_windows is None else other.open_windows,
            {**self.portions, **other.portions},
            {**self.operators, **other.operators},
        )

    @property
    def account(self) -> Account:
        return Account(self.read, self.late, self.rejected)


def deliver(
    packed: pa.Table,
    receiver: Receiver,
    order: str | None = None,
    rejects: Sequence[Reject] = (),
) -> Tally:
    """Hand packed rows to whoever wants them, results in the order of a column if one is named.
    `rejects` are rows that the driver has found."""
    read, late, rejected = (
        pc.sum(packed.column(name)).as_py() or 0 for name in ("read", "late", "rejected")
    )
    tally = Tally(read, late, rejected + len(rejects))
    if rejects:
        receiver.on_rejects(rejects)
    rows: list[pa.RecordBatch] = []
    sources: dict[str, SourceStatus] = {}  # what is said last counts
    open_: dict[str, OpenResults] = {}  # by stage; a window may be open in several buckets
    for kind in (PackedKind.REJECTED, PackedKind.LATE, PackedKind.ROWS, PackedKind.STATUS):
        chosen = packed.filter(pc.equal(packed.column("kind"), int(kind))).column("payload")
        for payload in chosen.to_pylist():
            if kind is PackedKind.STATUS:
                if payload:
                    status = unpack(payload)
                    if "portions" in status:
                        tally.portions |= status["portions"]
                        continue
                    sources |= {each["stream"]: SourceStatus(**each) for each in status["sources"]}
                    stage, told = status["stage"], OperatorStatus.load(status["operator"])
                    known = tally.operators.get(stage)
                    tally.operators[stage] = told if known is None else known.plus(told)
                    open_[stage] = open_.get(stage, NOTHING_OPEN) | OpenResults.load(status["open"])
                continue
            for batch in unpack_rows(payload).to_batches():
                if kind is PackedKind.ROWS and order is not None:
                    rows.append(batch)
                elif kind is PackedKind.ROWS:
                    tally.rows += batch.num_rows
                    receiver.on_rows(from_signed_record(batch))
                elif kind is PackedKind.LATE:
                    receiver.on_late(batch)
                else:
                    receiver.on_rejects(rejects_of(batch))
    tally.sources = list(sources.values())
    if open_:
        tally.open_windows = sum(each.count for each in open_.values())
    if order is not None and rows:
        rows = in_order(pa.Table.from_batches(all_signed(rows)), order).to_batches()
    for batch in rows:
        tally.rows += batch.num_rows
        receiver.on_rows(from_signed_record(batch))
    return tally


def all_signed(rows: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches with signs, if one has them: all that are without were given."""
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
