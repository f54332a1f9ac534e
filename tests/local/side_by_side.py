"""Runs whose sources are read side by side, chunk by chunk in an order that a test makes up, and
that may be ended and gone on with, by another plan if the test has several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.state import MemoryStore
from penstock.local.checkpoint import load_run, save_run
from penstock.local.graph.source_node import SourceNode
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from penstock.runs.answer import Outlet
from tests.planning import in_process

Planning = Callable[[QueryPlan], PhysicalPlan]

# Which source is read next, again and again; a source that has ended is passed over.
TURNS = st.lists(st.integers(0, 3), max_size=12)


class Interleaved(NamedTuple):
    rows: pa.Table
    late: pa.Table | None
    batches: list[pa.RecordBatch]  # the rows as they left
    runs: int


def run_interleaved(
    query: QueryPlan,
    turns: Sequence[int] = (),
    every: int | None = None,
    plans: Sequence[Planning] = (in_process,),
    watch: Callable[[LocalRun], None] | None = None,
) -> Interleaved:
    """`every` is the number of chunks after which a run ends, and the next one goes on with the
    next plan; `watch` sees a run after every chunk."""
    clock, store = ManualClock(), MemoryStore()
    rows: list[pa.RecordBatch] = []
    late: list[pa.RecordBatch] = []
    for number in count():
        given, late_given = Collected(), Collected()
        outlet = Outlet(query, given, late_given)
        plan = plans[number % len(plans)](query)
        run = LocalRun([plan], [outlet], clock, strict=True, resumable=True)
        load_run(run, store)
        ended = _go_on(run, turns, every, watch)
        save_run(run, store)
        rows += given.batches
        late += late_given.batches
        if ended:
            break
    table = pa.Table.from_batches(rows, query.schema.arrow)
    return Interleaved(table, pa.Table.from_batches(late) if late else None, rows, number + 1)


def _go_on(
    run: LocalRun,
    turns: Sequence[int],
    every: int | None,
    watch: Callable[[LocalRun], None] | None,
) -> bool:
    """Whether all sources have ended."""
    open_ = {scan.name: _chunks(scan) for scan in run.scans if not scan.ingest.ended}
    scans = {scan.name: scan for scan in run.scans}
    for number in count():
        if not open_:
            return True
        if number == every:
            return False
        turn = turns[number % len(turns)] if turns else number
        name = list(open_)[turn % len(open_)]
        chunk = next(open_[name])
        if chunk is None:
            run.end(scans[name])
            del open_[name]
        else:
            run.feed(scans[name], chunk)
        if watch is not None:
            watch(run)
    raise AssertionError


def _chunks(scan: SourceNode) -> Iterator[Chunk | None]:
    yield from scan.chunks()
    yield None


def ticks_of(batches: Sequence[pa.RecordBatch], name: str) -> list[int]:
    return [tick for batch in batches for tick in batch.column(name).to_pylist()]


def punctuations(items: Sequence[object]) -> list[Progress]:
    return [item for item in items if isinstance(item, Progress)]


def rows_of(items: Sequence[object]) -> list[tuple[object, ...]]:
    found = [item.rows for item in items if isinstance(item, Batch)]
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]
