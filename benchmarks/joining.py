"""The streams and queries that are joined, and how they are fed.

C: two streams joined by key, with times up to 5 s apart; events come at 1,000 per second of event
time in each, out of order by up to 3 s, with 10,000 keys.  Band: no key, r up to 1 s after l.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.local.run import LocalRun
from penstock.model.clock import SystemClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.nodes.join import Join, JoinKind
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Outlet

KEYS = 10_000
PER_SECOND = 1_000
JITTER = 3_000  # ms
SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
WITHIN = "l [RANGE 5 SECONDS, WA ts], r [RANGE 5 SECONDS, WA ts]"


@dataclass(frozen=True, slots=True)
class Joining:
    name: str
    sql: str
    kind: JoinKind = JoinKind.INNER

    def query(self) -> QueryPlan:
        db = ps.connect()
        for name in ("l", "r"):
            promise = ps.progress("ts", delay="3 seconds")
            db.stream(name, [SCHEMA.empty_table()], schema=SCHEMA, progress=promise)
        query = db.sql(self.sql)
        assert isinstance(query, ps.Query)
        return with_inputs(query.plan, self._of_kind)

    def _of_kind(self, node: Node) -> Node:
        node = with_inputs(node, self._of_kind)
        return replace(node, kind=self.kind) if isinstance(node, Join) else node


C = Joining("C", f"SELECT l.n AS n, r.n AS m FROM {WITHIN} WHERE l.k = r.k")
C_LEFT = Joining("C, left outer", C.sql, JoinKind.LEFT)
BAND = Joining(
    "band of 1 s",
    "SELECT count(*) AS pairs, sum(r.n - l.n) AS apart [RANGE 10 SECONDS, SLIDE 10 SECONDS,"
    " WA l.ts] FROM l [RANGE 1 SECOND, WA ts], r [RANGE 0 SECONDS, WA ts]",
)


def stream(count: int, seed: int) -> pa.RecordBatch:
    generator = np.random.default_rng(seed)
    due = np.arange(count) * 1000 // PER_SECOND + generator.integers(0, JITTER + 1, count)
    columns = [
        pa.array(generator.integers(0, KEYS, count)),
        pa.array(np.arange(count)),
        pa.array(due * 1000).cast(SCHEMA.field(2).type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Fed:
    """A run of a query whose streams are fed by hand."""

    def __init__(self, query: QueryPlan) -> None:
        self.rows = Collected()
        self.run = LocalRun(
            [physical_plan(query, Settings())], [Outlet(query, self.rows)], SystemClock()
        )

    def feed(self, port: int, batch: pa.RecordBatch) -> None:
        self.run.feed(self.run.scans[port], Chunk(batch))

    def held(self) -> int:
        """Tuples that operators keep."""
        return sum(stage.operator.metrics().rows for stage in self.run.stages)

    def end(self) -> pa.Table:
        for scan in self.run.scans:
            self.run.end(scan)
        return self.rows.table


def fed_alternately(
    query: QueryPlan,
    streams: tuple[pa.RecordBatch, pa.RecordBatch],
    rows: int,
    after: Callable[[Fed, int, int], None] | None = None,
) -> pa.Table:
    """Chunks of some rows of both streams in turn; `after` each, somebody may look at the run, and
    is told which stream it was of, and how many rows of it have come."""
    fed = Fed(query)
    for begin in range(0, streams[0].num_rows, rows):
        for port, each in enumerate(streams):
            fed.feed(port, each.slice(begin, rows))
            if after is not None:
                after(fed, port, begin + rows)
    return fed.end()
