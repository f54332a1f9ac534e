"""Running a query on the local engine with batches cut as a test wants, beside the reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings

import penstock as ps
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Chunk, Source
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import Clock, ManualClock
from penstock.model.types import Schema
from penstock.runs.answer import Answer
from tests.planning import in_process
from tests.reference.helpers import Row, Stream, Table, bag, database, tuples

# Examples differ in size; how long one takes says nothing.
examples = settings(deadline=None, max_examples=60)
CUTS = (1, 7, None)  # rows per batch; None leaves the batches of the source as they are


@dataclass(eq=False)
class Cut:
    """A source whose chunks are cut into batches of `rows` rows; a plan need not be made anew to
    have others."""

    inner: Source
    rows: int

    def describe(self) -> str:
        return self.inner.describe()

    def parts(self) -> list[str]:
        return self.inner.parts()

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        for chunk in self.inner.read(schema, rejects):
            for begin in range(0, chunk.batch.num_rows, self.rows):
                yield Chunk(chunk.batch.slice(begin, self.rows), chunk.part)


def recut(db: ps.Database, rows: int | None) -> None:
    """Cut what the streams of a database read; queries that are bound later see it, and those that
    were bound since it was cut for the first time."""
    if rows is None:
        return
    for key, stream in db.catalog.streams.items():
        source = stream.source
        if isinstance(source, Cut):
            source.rows = rows
        elif source is not None:
            db.catalog.streams[key] = replace(stream, source=Cut(source, rows))


def locally(
    sql: str, cut: int | None = None, clock: Clock | None = None, **streams: Stream | Table
) -> Answer:
    """The run of a query over some streams on the local engine."""
    db = database(**streams)
    recut(db, cut)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return answer(in_process(query.plan), clock or ManualClock())


def late_rows(found: Answer) -> list[Row]:
    return bag(tuples(found.late))


def assert_same(sql: str, cuts: tuple[int | None, ...] = CUTS, **streams: Stream | Table) -> None:
    """The local engine gives the rows and the late tuples of the reference, however batches are
    cut."""
    db = database(**streams)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    rows, late = bag(tuples(query.collect())), bag(tuples(query.late))
    recut(db, 1)
    again = db.sql(sql)
    assert isinstance(again, ps.Query)
    plans = {False: in_process(query.plan), True: in_process(again.plan)}
    for cut in cuts:
        recut(db, cut)
        found = answer(plans[cut is not None], ManualClock())
        assert bag(tuples(found.table)) == rows, f"rows of batches of {cut}"
        assert late_rows(found) == late, f"late tuples of batches of {cut}"
        assert found.account == query.account


def values_of(found: Answer) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.table.to_pylist()
    return rows
