"""Runs that go on: several queries over one reading of a source, rows written while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Chunk, Source
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import Scheduler
from penstock.model.clock import ManualClock
from penstock.model.types import Schema
from penstock.runs.answer import Outlet
from tests.local.helpers import examples
from tests.planning import in_process
from tests.reference.helpers import Stream, bag, database, tuples

ROWS = [("a", 1, 1), ("b", 2, 12), ("a", 3, 4), ("a", 4, 33), ("b", None, 41)]
S = Stream("k STRING, v INT, t INT", ROWS, ps.progress("t", delay=3))
COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"
SUM = "SELECT k, sum(v) AS total [RANGE 20, SLIDE 10, WA t] FROM s AS other GROUP BY k"
PLAIN = "SELECT k, t FROM s WHERE v > 1"


@dataclass(frozen=True)
class Counted:
    """A source that counts how often it is read, a row at a time."""

    inner: Source
    readings: list[int] = field(default_factory=list)

    def describe(self) -> str:
        return self.inner.describe()

    def parts(self) -> list[str]:
        return self.inner.parts()

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        number = len(self.readings)
        self.readings.append(0)
        for chunk in self.inner.read(schema, rejects):
            for row in range(chunk.batch.num_rows):
                self.readings[number] += 1
                yield Chunk(chunk.batch.slice(row, 1), chunk.part)


def counted(db: ps.Database, name: str = "s") -> Counted:
    stream = db.catalog.streams[name]
    assert stream.source is not None
    source = Counted(stream.source)
    db.catalog.streams[name] = replace(stream, source=source)
    return source


def ask(db: ps.Database, sql: str) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def local(**streams: Stream) -> ps.Database:
    db = ps.connect(clock=ManualClock())
    for name, stream in streams.items():
        db.stream(name, stream.rows, schema=stream.schema, progress=stream.progress)
    return db


# --- several queries -----------------------------------------------------------------------------


def test_several_queries_read_a_source_once() -> None:
    db = local(s=S)
    source = counted(db)
    found: list[list[pa.RecordBatch]] = [[], [], []]
    queries = [ask(db, sql) for sql in (COUNT, SUM, PLAIN)]
    accounts = db.run(queries, [each.append for each in found])
    assert source.readings == [len(ROWS)]
    for sql, batches, account in zip((COUNT, SUM, PLAIN), found, accounts, strict=True):
        alone = ask(database(s=S), sql)
        rows = [row for batch in batches for row in tuples(pa.Table.from_batches([batch]))]
        assert bag(rows) == bag(tuples(alone.collect()))
        assert account == alone.account


VALUES = st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.integers(-5, 5), st.integers(0, 60)),
    max_size=20,
)


@given(VALUES)
@examples
def test_together_as_alone(rows: list[Any]) -> None:
    stream = Stream(S.schema, rows, S.progress)
    db = local(s=stream)
    sinks, late = [Collected(), Collected()], [Collected(), Collected()]
    accounts = db.run([ask(db, COUNT), ask(db, SUM)], sinks, late=late)
    for sql, sink, side, account in zip((COUNT, SUM), sinks, late, accounts, strict=True):
        alone = ask(database(s=stream), sql)
        assert bag(tuples(sink.table)) == bag(tuples(alone.collect()))
        assert bag(tuples(side.table)) == bag(tuples(alone.late))
        assert account == alone.account


TWICE = "(SELECT k, t FROM s UNION ALL SELECT k, t FROM s)"


@pytest.mark.parametrize(
    ("sql", "readings"),
    [
        (f"SELECT k, t FROM {TWICE}", 1),
        (f"SELECT count(*) AS n [RANGE 20, SLIDE 10, WA t] FROM {TWICE}", 1),
        ("SELECT a.t, b.t FROM s a JOIN s b ON a.k = b.k AND b.t BETWEEN a.t AND a.t + 9", 1),
        # rows are counted as they come: first all of one branch, then all of the other
        (f"SELECT count(*) AS n, max(t) AS m [RANGE 3 ROWS, SLIDE 3 ROWS] FROM {TWICE}", 2),
    ],
)
def test_a_query_that_asks_twice_reads_once(sql: str, readings: int) -> None:
    bad = Stream(S.schema, [*ROWS, ("a", 1, None)], S.progress)
    db = local(s=bad)
    source = counted(db)
    query, known = ask(db, sql), ask(database(s=bad), sql)
    assert bag(tuples(query.collect())) == bag(tuples(known.collect()))
    assert bag(tuples(query.late)) == bag(tuples(known.late))
    assert query.rejected == known.rejected
    assert query.account == known.account
    assert query.account.read == len(bad.rows)
    assert query.account.rejected == 1
    assert source.readings == [len(bad.rows)] * readings


def test_streams_of_one_name_are_told_apart() -> None:
    db = local(s=S)
    first = ask(db, "SELECT count(*) AS n [RANGE 100, SLIDE 100, WA t] FROM s")
    db.sql("DROP STREAM s")
    db.stream("s", ROWS[:2], schema=S.schema, progress=S.progress)
    second = ask(db, "SELECT count(*) AS n [RANGE 100, SLIDE 100, WA t] FROM s")
    sinks = [Collected(), Collected()]
    db.run([first, second], sinks)
    assert [sink.table.column("n").to_pylist() for sink in sinks] == [[5], [2]]


def test_a_sink_for_every_query() -> None:
    db = local(s=S)
    with pytest.raises(ps.SinkError, match="there are 2 queries"):
        db.run([ask(db, COUNT), ask(db, SUM)], [print])
    assert db.run([], []) == []


# --- rows leave while the run goes on -----------------------------------------------------------


def test_rows_are_written_before_the_source_has_ended() -> None:
    db = local(s=S)
    source = counted(db)
    seen: list[tuple[int, list[int]]] = []
    query = ask(db, COUNT)
    query.run(lambda batch: seen.append((source.readings[0], batch.column("n").to_pylist())))
    assert seen == [(4, [2, 1]), (5, [1, 1])]


def test_late_tuples_and_rejects_leave_as_they_come() -> None:
    rows = [("a", 1, 1), ("b", "x", 2), ("c", 3, 50), ("d", 4, 2), ("e", 5, None), ("f", 6, 60)]
    db = local(s=Stream("k STRING, v INT, t INT", rows, ps.progress("t", ordered=True)))
    source = counted(db)
    late: list[Any] = []
    rejected: list[Any] = []
    account = ask(db, COUNT).run(
        lambda batch: None,
        late=lambda row: late.append((source.readings[0], row.column("k").to_pylist())),
        rejected=lambda row: rejected.append((source.readings[0], row.column("row").to_pylist())),
    )
    assert late == [(3, ["d"])]
    assert rejected == [(1, [2]), (4, [5])]
    assert (account.read, account.late, account.rejected) == (6, 1, 2)


def test_nothing_is_kept_of_what_has_gone_to_a_sink() -> None:
    rows = [("a", "bad", 1)] * 50
    db = local(s=Stream("k STRING, v INT, t INT", rows))
    query = ask(db, "SELECT k FROM s")
    outlet = Outlet(query.plan, Collected())
    run = LocalRun([in_process(query.plan)], [outlet], ManualClock())
    Scheduler(run).drive()
    assert outlet.rejected == 50
    assert len(outlet.first_rejects) == 3
    assert list(run.scans[0].log) == []
    assert len(run.scans[0].log) == 50


@given(VALUES, st.integers(0, 30))
@examples
def test_in_order_batch_by_batch(rows: list[Any], delay: int) -> None:
    stream = Stream(S.schema, rows, ps.progress("t", delay=delay))
    sql = "SELECT k, v, t FROM s EMIT IN ORDER"
    db = local(s=stream)
    counted(db)
    batches: list[pa.RecordBatch] = []
    ask(db, sql).run(batches.append)
    found = [row for batch in batches for row in tuples(pa.Table.from_batches([batch]))]
    assert bag(found) == bag(tuples(ask(database(s=stream), sql).collect()))
    times = [row[2] for row in found]
    high = -1
    for row in rows:  # whoever keeps the promise comes in order
        if row[2] < high - delay:
            return
        high = max(high, row[2])
    assert times == sorted(times)


# --- what a host may rely on ---------------------------------------------------------------------


def test_operators_have_stable_names() -> None:
    def names() -> list[tuple[str, str]]:
        db = local(s=S)
        plans = [ask(db, sql).plan for sql in (COUNT, f"{PLAIN} UNION ALL {PLAIN}")]
        outlets = [Outlet(plan, Collected()) for plan in plans]
        run = LocalRun([in_process(each) for each in plans], outlets, ManualClock())
        return [(stage.name, type(stage.operator).__name__) for stage in run.stages]

    assert names() == names()
    assert len({name for name, _ in names()}) == len(names())
    assert any(name.startswith("WindowAggregate-") for name, _ in names())


def test_a_stopped_run_closes_its_sinks_and_no_window() -> None:
    db = local(s=S)
    counted(db)
    query = ask(db, COUNT)
    sink = Collected()
    outlet = Outlet(query.plan, sink)
    run = LocalRun([in_process(query.plan)], [outlet], ManualClock())
    driver = Scheduler(run, lambda scan, chunk: driver.stop() if scan.read == 4 else None)
    driver.drive()
    assert sink.table.column("n").to_pylist() == [2, 1]  # those up to 33 − 3
    assert run.account(outlet).read == 4


def test_what_cannot_be_run_says_what_can() -> None:
    db = local(s=S)
    query = ask(db, "SELECT v FROM s EXCEPT ON (v) s EMIT EARLY EVERY 1 SECOND")
    with pytest.raises(ps.EngineError, match="a difference has no early answers") as caught:
        query.run(print)
    assert "windows or groups over it, or no EMIT EARLY" in str(caught.value)
