"""What comes out of a job: who gets it, and what is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.model.batch import SIGN
from penstock.operators.batch import Batch
from penstock.operators.measured import OperatorStatus
from penstock.runs.adapting.decision import Decision
from penstock.runs.answer import Account
from penstock.runs.status import SourceStatus
from penstock.sources.rejects import Reject, RejectKind

_REMEMBERED = 1000  # decisions


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
