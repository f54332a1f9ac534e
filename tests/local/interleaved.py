"""Runs whose sources are read in any order, chunk by chunk, and which may begin anew on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.kernel.state import MemoryStore
from penstock.local.checkpoint import load_run, save_run
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.model.punctuation import sign_name
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Outlet
from penstock.runs.collected_answer import final_rows
from tests.planning import in_process
from tests.reference.helpers import Row, bag, tuples


class Interleaved(NamedTuple):
    rows: pa.Table
    late: list[Row]  # without what is NULL: each part of a run knows its own columns alone


class _Part:
    """A run, and what is left of its sources."""

    def __init__(self, query: QueryPlan, store: MemoryStore) -> None:
        self.rows, self.late = Collected(), Collected()
        outlet = Outlet(query, self.rows, self.late)
        self.run = LocalRun([in_process(query)], [outlet], ManualClock(), True, resumable=True)
        load_run(self.run, store)
        self.left = [(scan, self._chunks(number)) for number, scan in enumerate(self.run.scans)]
        self.left = [each for each in self.left if not each[0].ingest.ended]

    def _chunks(self, number: int) -> Iterator[Chunk | None]:
        yield from self.run.scans[number].chunks()
        yield None

    def step(self, pick: int) -> None:
        scan, chunks = self.left[pick % len(self.left)]
        chunk = next(chunks)
        if chunk is None:
            self.run.end(scan)
            self.left = [each for each in self.left if each[0] is not scan]
        else:
            self.run.feed(scan, chunk)


def run_interleaved(
    query: QueryPlan,
    picks: Sequence[int],
    restart: int | None = None,
    between: Callable[[LocalRun], None] | None = None,
) -> Interleaved:
    """`picks` says which source is read next, again and again; after every `restart` chunks the run
    begins anew from what was saved; `between` any two chunks, something may be done to it."""
    store, steps = MemoryStore(), 0
    part = _Part(query, store)
    tables, late = [], []
    while part.left:
        part.step(picks[steps % len(picks)] if picks else 0)
        steps += 1
        if between is not None:
            between(part.run)
        if restart is not None and steps % restart == 0 and part.left:
            save_run(part.run, store)
            tables.append(part.rows.table)
            late += part.late.batches
            part = _Part(query, store)
    tables.append(part.rows.table)
    late += part.late.batches
    rows = pa.concat_tables(tables)
    if query.revises:
        rows = final_rows(rows, sign_name(query.schema.arrow.names))
    return Interleaved(rows, plainly([pa.Table.from_batches([batch]) for batch in late]))


def plainly(tables: list[pa.Table]) -> list[Row]:
    """Rows without the columns that are NULL, whatever these are called."""
    rows = [row for table in tables for row in tuples(table)]
    return bag(tuple(value for value in row if value is not None) for row in rows)
