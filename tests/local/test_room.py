"""Rows at the ends of their types: what has windows that cannot be written down is set aside where
it enters, and everything else goes on, whatever the engine."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.model.ticks import Interval
from penstock.plan.nodes.node import Scan
from penstock.runs.answer import Account
from tests.local.helpers import CUTS, assert_same, recut
from tests.planning import in_process
from tests.reference.helpers import Stream, bag, counted, database, tuples
from tests.spark.without_spark import Given, WithoutSpark, rows_of

MIN, MAX = -(2**63), 2**63 - 1
PROMISE = ps.progress("t", delay="5")
WINDOWS = [
    "RANGE 10, SLIDE 10, WA t",
    "RANGE 10, SLIDE 3, WA t",
    "RANGE 3, SLIDE 10, WA t",
    "RANGE 10, SLIDE 10, WA t, ORIGIN 7",
    "RANGE 10, SLIDE 1 ROW, WA t",
    "RANGE 2 ROWS, SLIDE 1 ROW, WA rank(t)",
]
# close to both ends, and in the middle
TIMES = st.lists(
    st.one_of(st.integers(MIN, MIN + 25), st.integers(-20, 20), st.integers(MAX - 25, MAX)),
    max_size=8,
)


def count(window: str, source: str = "s") -> str:
    return f"SELECT window_id, window_start, window_end, count(*) AS n [{window}] FROM {source}"


def rejected(query: ps.Query) -> list[tuple[Any, ...]]:
    columns = ("kind", "row", "column", "reason")
    return list(zip(*(query.rejected.column(name).to_pylist() for name in columns), strict=True))


@pytest.mark.parametrize("window", WINDOWS)
@given(times=TIMES)
@settings(deadline=None, max_examples=15)
def test_both_engines_set_the_same_rows_aside(window: str, times: list[int]) -> None:
    stream = Stream("t BIGINT", [(time,) for time in times], PROMISE)
    assert_same(count(window), s=stream)
    db = database(s=stream)
    query = db.sql(count(window))
    assert isinstance(query, ps.Query)
    for cut in CUTS:
        recut(db, cut)
        again = db.sql(count(window))
        assert isinstance(again, ps.Query)
        found = answer(in_process(again.plan), ManualClock()).rejects.table()
        assert found.to_pylist() == query.rejected.to_pylist()


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize("time", [MIN, MAX])
def test_only_rows_whose_windows_can_be_written_down(engine: str, time: int) -> None:
    """Each tick from the end on, until there is room."""
    step = 1 if time == MIN else -1
    rows = [(time + step * away,) for away in range(30)]
    db = ps.connect(engine)
    db.stream("s", rows, schema="t BIGINT", progress=ps.progress("t", delay=2**62))
    query = db.sql(count("RANGE 10, SLIDE 4, WA t"))
    assert isinstance(query, ps.Query)

    def has_room(tick: int) -> bool:
        wids = range(tick // 4, (tick + 10) // 4)
        return (wids.start + 1) * 4 - 10 >= MIN and wids.stop * 4 <= MAX

    kept = [tick for (tick,) in rows if has_room(tick)]
    assert 0 < len(kept) < len(rows)
    assert sum(query.collect().column("n").to_pylist()) == sum(
        (tick + 10) // 4 - tick // 4 for tick in kept
    )
    assert query.account == Account(read=30, late=0, rejected=30 - len(kept))


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_a_landmark_window_that_ends_beyond_the_type(engine: str) -> None:
    db = ps.connect(engine)
    db.stream("s", [(5,), (MAX,), (7,)], schema="t BIGINT", progress=PROMISE)
    query = db.sql("SELECT window_end, count(*) [RANGE ALL, SLIDE 10, WA t] FROM s")
    assert isinstance(query, ps.Query)
    assert tuples(query.collect()) == [(10, 2)]
    reason = "the windows of 9223372036854775807 reach beyond the range of BIGINT"
    assert rejected(query) == [("out of range", 2, "t", reason)]


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_a_promise_beyond_the_last_window(engine: str) -> None:
    """Landmark windows go on to where a promise says that the stream has come."""
    progress = ps.progress("t", punctuated=("p", "t"))
    rows = [(5, False), (MAX, True), (17, False)]
    db = ps.connect(engine)
    db.stream("s", rows, schema="t BIGINT, p BOOLEAN", progress=progress)
    landmark = db.sql("SELECT window_end, count(*) [RANGE ALL, SLIDE 10, WA t] FROM s")
    sliding = db.sql("SELECT window_end, count(*) [RANGE 10, SLIDE 10, WA t] FROM s")
    assert isinstance(landmark, ps.Query)
    assert isinstance(sliding, ps.Query)
    assert tuples(landmark.collect()) == [(10, 1), (20, 2)]
    assert [kind for kind, *_ in rejected(landmark)] == ["out of range"]
    assert tuples(sliding.collect()) == [(10, 1)]  # here, it is a promise like any other
    assert sliding.account == Account(read=3, late=1, rejected=0)


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize(
    ("sql_type", "length", "end"),
    [
        ("TIMESTAMP", "10 SECONDS", MAX),
        ("DATE", "10 DAYS", 2**31 - 1),
        ("DECIMAL(38,0)", "10", Decimal("9" * 38)),
        ("DECIMAL(20,2)", "10", Decimal("92233720368547758.07")),
    ],
)
def test_every_type(engine: str, sql_type: str, length: str, end: Any) -> None:
    middle = Decimal(5) if sql_type.startswith("DECIMAL") else 5
    db = ps.connect(engine)
    promise = ps.progress("t", ordered=True)
    db.stream("s", [(end,), (middle,)], schema=counted(f"t {sql_type}"), progress=promise)
    query = db.sql(f"SELECT count(*) AS n [RANGE {length}, SLIDE {length}, WA t] FROM s")
    assert isinstance(query, ps.Query)
    assert query.collect().column("n").to_pylist() == [1]
    assert query.account == Account(read=2, late=0, rejected=1)


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize(
    "sql",
    [
        count("RANGE 10, SLIDE 10, WA t + 100"),
        count("RANGE 10, SLIDE 10, WA u", "(SELECT t * 2 AS u FROM s) AS d"),
        count(
            "RANGE 1000, SLIDE 1000, WA u",
            "(SELECT t AS u FROM s UNION ALL SELECT t AS u FROM r) AS d",
        ),
        count("RANGE 1000, SLIDE 1000, WA window_end", f"({count(WINDOWS[0])}) AS d"),
        count("RANGE 1000, SLIDE 1000, WA t", "(SELECT t, count(*) AS n FROM s GROUP BY t) AS d"),
    ],
)
def test_windows_over_what_rises_with_the_column(engine: str, sql: str) -> None:
    db = ps.connect(engine)
    for name in "sr":
        rows = [(MAX - 12,), (MIN + 12,), (5,)]
        db.stream(name, rows, schema="t BIGINT", progress=PROMISE)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    streams = 2 if "UNION" in sql else 1
    assert sum(query.collect().column("n").to_pylist()) >= streams
    assert query.account.rejected >= streams
    assert {kind for kind, *_ in rejected(query)} == {"out of range"}


def test_a_strict_run_ends() -> None:
    db = ps.connect(strict=True)
    db.stream("s", [(MAX,)], schema="t BIGINT", progress=PROMISE)
    query = db.sql(count(WINDOWS[0]))
    assert isinstance(query, ps.Query)
    with pytest.raises(ps.SourceError, match="reach beyond the range of BIGINT"):
        query.collect()


def test_queries_in_one_pass_set_the_same_rows_aside() -> None:
    """The stream is read once for all of them, so it has to suit each."""
    db = ps.connect()
    db.stream("s", [(5,), (MAX,)], schema="t BIGINT", progress=PROMISE)
    found: list[list[Any]] = [[], []]
    plain, windows = db.sql("SELECT t FROM s"), db.sql(count(WINDOWS[0]))
    assert isinstance(plain, ps.Query)
    assert isinstance(windows, ps.Query)
    db.run([plain, windows], [found[0].append, found[1].append], rows=True)
    assert [row["t"] for row in found[0]] == [5]
    assert [row["n"] for row in found[1]] == [1]
    assert (plain.account.rejected, windows.account.rejected) == (1, 1)
    assert plain.collect().column("t").to_pylist() == [5, MAX]


def test_inside_the_tasks_of_spark() -> None:
    rows = [(MAX,), (5,), (MIN,), (17,)]
    sql = count(WINDOWS[0])
    query = database(s=Stream("t BIGINT", rows, PROMISE)).sql(sql)
    assert isinstance(query, ps.Query)
    job = WithoutSpark(query.plan, buckets=2)
    batch = rows_of(query.plan)["s"]
    job.run({"s": [Given([Chunk(batch.slice(0, 2))]), Given([Chunk(batch.slice(2))], ends=True)]})
    made = [tuple(row.values()) for b in job.received.rows[0] for row in b.to_pylist()]
    assert bag(made) == bag(tuples(query.collect()))
    assert job.tally.rejected == query.account.rejected == 2


def test_what_a_scan_is_told() -> None:
    db = database(s=Stream("t BIGINT", [], PROMISE))
    query = db.sql(count("RANGE 10, SLIDE 10, WA t"))
    assert isinstance(query, ps.Query)
    (scan,) = (node for node in query.plan.walk() if isinstance(node, Scan))
    assert scan.room.tuples == Interval(MIN + 8, MAX - 8)
