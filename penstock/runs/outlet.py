"""Where a query ends: counts what comes out and hands it to sinks, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import SinkError
from penstock.model.batch import sign_name
from penstock.operators.batch import Batch
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties.late_columns import late_schemas, plain_names
from penstock.runs.answer import LateColumns, plainly_named
from penstock.runs.latency import Latencies
from penstock.sinks.ledger import Ledger
from penstock.sinks.sink import Sink
from penstock.sources.rejects import REJECT_COLUMNS, Reject, rejects_batch

SHOWN = 3  # rejects that a message can name


class Outlet:
    """The rows of a query go to `sink`, with a sign if they may be taken back; late tuples and
    rejects to sinks of their own, or are counted and gone."""

    def __init__(
        self,
        query: QueryPlan,
        sink: Sink,
        late: Sink | None = None,
        rejected: Sink | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """The `ledger` is where outputs that a later run goes on with are noted."""
        self._ledger = ledger
        self._schema = query.schema.arrow
        self._signed = query.revises or query.signed
        if self._signed:
            refuse_for_good(sink)
            name = sign_name(self._schema.names)
            self._schema = self._schema.append(pa.field(name, pa.int8()))
        self._sink = sink
        self._late_sink = late
        self._rejected_sink = rejected
        self.written = 0
        self.late = 0
        self.rejected = 0
        self.latencies = Latencies()  # told by hosts that know when tuples came
        self.first_rejects: list[Reject] = []  # enough for a message
        self.plain_names = plain_names(query)  # of late tuples
        self._late_schemas = late_schemas(query)
        self._late_columns: LateColumns | None = None  # once there are late tuples
        sink.begin(self._schema)
        if rejected is not None:
            rejected.begin(REJECT_COLUMNS)

    def on_rows(self, batch: Batch) -> None:
        count = batch.num_rows
        if count:
            self.written += count
            rows = batch.rows
            if self._signed:
                signs = np.ones(len(rows), np.int8) if batch.signs is None else batch.signs
                columns = [*rows.columns, pa.array(signs, pa.int8())]
                rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            self._sink.write(rows)

    def on_late(self, batch: pa.RecordBatch) -> None:
        if self._late_sink is not None and batch.num_rows and _is_wanted(self._late_sink):
            batch = plainly_named(batch, self.plain_names)
            if self._late_columns is None:  # which ones they have depends on the operators
                self._late_columns = LateColumns([*self._late_schemas, batch.schema])
                self._late_sink.begin(self._late_columns.schema)
            for each in self._late_columns.aligned(pa.Table.from_batches([batch])).to_batches():
                self._late_sink.write(each)
        self.late += batch.num_rows

    def on_rejects(self, rejects: Sequence[Reject]) -> None:
        self.rejected += len(rejects)
        self.first_rejects += rejects[: max(0, SHOWN - len(self.first_rejects))]
        if self._rejected_sink is not None and _is_wanted(self._rejected_sink):
            self._rejected_sink.write(rejects_batch(rejects))

    @property
    def waiting(self) -> int:
        """Rows that have not been handed to subscribers, where these have queues."""
        return 0

    @property
    def dropped(self) -> int:
        """Rows that there was no room for in such queues."""
        return 0

    @property
    def sinks(self) -> list[Sink]:
        sinks = (self._sink, self._late_sink, self._rejected_sink)
        return [sink for sink in sinks if sink is not None]

    def flush(self) -> None:
        for sink in self.sinks:
            sink.flush()

    @property
    def commits(self) -> bool:
        """Whether a sink wants to know where epochs end."""
        return any(hasattr(sink, "commit") for sink in self.sinks)

    def prepare(self, epoch: int) -> None:
        """An epoch is about to be committed: outputs that this run has not written to are cut back
        to what they held before it."""
        for sink in self.sinks:
            prepare = getattr(sink, "prepare", None)
            if prepare is not None:
                prepare(epoch)

    def commit(self, epoch: int) -> None:
        """An epoch is complete: whatever of it was handed over is kept now.  One that failed comes
        again."""
        self.prepare(epoch)
        if self._ledger is not None:
            self._ledger.write()
        for sink in self.sinks:
            commit = getattr(sink, "commit", None)
            if commit is not None:
                commit(epoch)
            else:
                sink.flush()
        if self._ledger is not None:
            self._ledger.write()

    def end(self) -> None:
        self._sink.end()
        if self._late_sink is not None and self.late:
            self._late_sink.end()
        if self._rejected_sink is not None:
            self._rejected_sink.end()


def refuse_for_good(sink: Sink) -> None:
    """Rows that may be taken back are not for a sink that says it cannot take any back."""
    if not getattr(sink, "takes_back", True):
        raise SinkError(
            f"rows of the query may be taken back, and {type(sink).__name__} keeps them for good",
            expected="a sink that understands the column _sign",
            hint="leave EMIT CHANGES, EMIT EARLY and LATE AMEND out, or query.collect()",
        )


def _is_wanted(sink: Sink) -> bool:
    """Sinks that hand on to others may have nobody to hand on to."""
    return bool(getattr(sink, "wanted", True))
