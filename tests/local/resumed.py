"""Runs in parts: each goes on from what the one before it saved, as if the process had ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.kernel.state import ChunkStore
from penstock.local.checkpoint import load_run, save_run
from penstock.local.graph.source_node import SourceNode
from penstock.local.run import LocalRun
from penstock.model.clock import Clock, ManualClock
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Outlet
from tests.planning import in_process


class Part:
    """A run that goes on from a store for some chunks, and then is gone."""

    def __init__(
        self, query: QueryPlan, store: ChunkStore, clock: Clock | None = None, strict: bool = True
    ) -> None:
        self.rows, self.late = Collected(), Collected()
        outlet = Outlet(query, self.rows, self.late)
        self.run = LocalRun(
            [in_process(query)], [outlet], clock or ManualClock(), strict, resumable=True
        )
        self.store = store
        load_run(self.run, store)

    def go_on(self, chunks: int) -> bool:
        """Whether there is more."""
        for number, (scan, chunk) in enumerate(self._left()):
            if number == chunks:
                save_run(self.run, self.store)
                return True
            if chunk is None:
                self.run.end(scan)
            else:
                self.run.feed(scan, chunk)
        return False

    def _left(self) -> Iterator[tuple[SourceNode, Chunk | None]]:
        for scan in self.run.scans:
            if not scan.ingest.ended:
                for chunk in scan.chunks():
                    yield scan, chunk
                yield scan, None


class InParts(NamedTuple):
    rows: pa.Table
    late: pa.Table | None
    parts: int


def run_in_parts(
    query: QueryPlan,
    chunks: int,
    store: Callable[[], ChunkStore],
    strict: bool = True,
    clock: Clock | None = None,
) -> InParts:
    """The whole run; `store` opens what was saved, before every part."""
    clock = clock or ManualClock()
    rows, late = [], []
    more = True
    while more:
        part = Part(query, store(), clock, strict)
        more = part.go_on(chunks)
        rows.append(part.rows.table)
        late += part.late.batches
    return InParts(pa.concat_tables(rows), pa.Table.from_batches(late) if late else None, len(rows))
