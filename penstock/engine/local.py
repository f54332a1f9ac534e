"""The whole answer of a query at once: a run whose sinks gather everything."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.engine.driver import Driver
from penstock.engine.run import LocalRun
from penstock.model.batch import sign_name
from penstock.model.clock import Clock
from penstock.physical.plan import PhysicalPlan
from penstock.plan.query import QueryPlan
from penstock.runs.answer import Answer, join_tables, plainly_named
from penstock.runs.final_rows import final_rows
from penstock.runs.outlet import Outlet
from penstock.sinks.sink import Collected
from penstock.sources.rejects import Reject, RejectLog


def answer(plan: PhysicalPlan, clock: Clock, strict: bool = False) -> Answer:
    query = plan.query
    rows = Collected()
    outlet = _Gathering(query, rows)
    run = LocalRun([plan], [outlet], clock, strict)
    Driver(run).drive()
    signed = sign_name(query.schema.arrow.names)
    table = final_rows(rows.table, signed) if query.revises else rows.table
    if query.in_order:
        table = table.sort_by(query.progress[0].field.qualified)
    delivered = sum(scan.ingest.read for scan in run.scans)
    return Answer(table, join_tables(outlet.late_tables, query), outlet.log, delivered)


class _Gathering(Outlet):
    """Keeps late tuples, in columns that follow from those there are, and rejects."""

    def __init__(self, query: QueryPlan, rows: Collected) -> None:
        super().__init__(query, rows)
        self.late_tables: list[pa.Table] = []
        self.log = RejectLog()

    def on_late(self, batch: pa.RecordBatch) -> None:
        super().on_late(batch)
        named = plainly_named(batch, self.plain_names)
        self.late_tables.append(pa.Table.from_batches([named]))

    def on_rejects(self, rejects: Sequence[Reject]) -> None:
        super().on_rejects(rejects)
        for reject in rejects:
            self.log.add(reject)
