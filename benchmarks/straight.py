"""A straight driver: what an operator gives is handed to the next one by a call, all the way down.

It has no buffers, no rules, no progress arcs and no shares, so it is what the query graph is
compared with.  It executes the same physical plan by the same operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from penstock.io.sinks.sink import Collected
from penstock.io.sources.rejects import RejectLog
from penstock.io.sources.source import Chunk
from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.operator import Item, Operator, Progress
from penstock.kernel.progress.ingest import Ingest
from penstock.model.clock import Clock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import OperatorKind, PhysicalNode
from penstock.runs.answer import Outlet


@dataclass(frozen=True, slots=True)
class _Stage:
    operator: Operator
    after: _Stage | None
    port: int = 0  # of the one after it


class Straight:
    """Its `scans` are in the order of the query."""

    def __init__(self, query: QueryPlan, clock: Clock) -> None:
        self.rows = Collected()
        self._outlet = Outlet(query, self.rows)
        self._clock = clock
        self.scans: list[tuple[Ingest, _Stage, int]] = []
        self._build(physical_plan(query, Settings()).root, None, 0)

    def _build(self, node: PhysicalNode, after: _Stage | None, port: int) -> None:
        if node.operator is OperatorKind.READ:
            assert isinstance(node.logical, Scan)
            assert after is not None
            self.scans.append((Ingest(node.logical, self._clock, RejectLog()), after, port))
            return
        stage = _Stage(operator_for(node, self._clock), after, port)
        for number, each in enumerate(node.ports):
            self._build(each.input, stage, number)

    def feed(self, scan: int, chunk: Chunk) -> None:
        ingest, stage, port = self.scans[scan]
        for item in ingest.on_chunk(chunk):
            self._push(item, stage, port)

    def end(self) -> pa.Table:
        for ingest, stage, port in self.scans:
            for item in ingest.on_end():
                self._push(item, stage, port)
        return self.rows.table

    def read(self) -> pa.Table:
        """All of its only source."""
        ((ingest, _, _),) = self.scans
        for chunk in ingest.chunks():
            self.feed(0, chunk)
        return self.end()

    def _push(self, item: Item, stage: _Stage | None, port: int) -> None:
        if stage is None:
            if isinstance(item, Batch):
                self._outlet.on_rows(item)
            elif not isinstance(item, Progress):
                self._outlet.on_late(item.batch)
            return
        if isinstance(item, Batch):
            found = stage.operator.on_batch(port, item)
        elif isinstance(item, Progress):
            found = stage.operator.on_progress(port, item)
        else:  # late
            self._outlet.on_late(item.batch)
            return
        push = partial(self._push, stage=stage.after, port=stage.port)
        for each in found:
            push(each)


def straight_alternately(
    query: QueryPlan, streams: tuple[pa.RecordBatch, pa.RecordBatch], rows: int, clock: Clock
) -> pa.Table:
    """Chunks of some rows of both streams in turn."""
    driver = Straight(query, clock)
    for begin in range(0, streams[0].num_rows, rows):
        for scan, each in enumerate(streams):
            driver.feed(scan, Chunk(each.slice(begin, rows)))
    return driver.end()
