"""LATE AMEND and EMIT EARLY in a run: what sinks see, and when early answers are due."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import BindError, ParseError, PenstockError
from penstock.kernel.revisions.amendment import EarlyTimer
from penstock.model.clock import Clock, ManualClock
from penstock.model.punctuation import SIGN, sign_name
from penstock.runs.collected_answer import final_rows
from tests.local.helpers import assert_same, locally, recut
from tests.reference.helpers import Stream, ask, bag, database, tuples

SCHEMA = "k STRING, v INT, t INT"
LATE = Stream(SCHEMA, [("a", 1, 1), ("b", 2, 12), ("a", 3, 2)], ps.progress("t", delay=0))
SHOWN = sign_name([])
few = settings(deadline=None, max_examples=20)


def seen(
    sql: str, clock: Clock | None = None, cut: int | None = 1, **streams: Stream
) -> list[dict[str, Any]]:
    """The rows that a sink sees, of batches of one row unless others are asked for."""
    db = ps.connect("local", clock=clock or ManualClock())
    for name, stream in streams.items():
        db.stream(name, stream.rows, schema=stream.schema, progress=stream.progress)
    recut(db, cut)
    rows: list[dict[str, Any]] = []
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    query.run(rows.append, rows=True)
    return rows


def short(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows]


def test_sinks_see_signs() -> None:
    rows = seen("SELECT sum(v) AS s [RANGE 5, SLIDE 5, WA t] FROM s LATE AMEND", s=LATE)
    assert list(rows[0]) == ["window_start", "window_end", "s", SHOWN]
    assert short(rows) == [(0, 5, 1, 1), (0, 5, 1, -1), (0, 5, 4, 1), (10, 15, 2, 1)]


def test_what_is_collected_has_none() -> None:
    db = ps.connect("local")
    db.stream("s", LATE.rows, schema=LATE.schema, progress=LATE.progress)
    recut(db, 1)
    query = db.sql("SELECT sum(v) AS s [RANGE 5, SLIDE 5, WA t] FROM s LATE AMEND EMIT IN ORDER")
    assert isinstance(query, ps.Query)
    found = query.collect()
    assert found.schema == query.schema
    assert [tuple(row.values()) for row in found.to_pylist()] == [(0, 5, 4), (10, 15, 2)]


def test_queries_that_take_nothing_back_have_signs_as_well() -> None:
    """Whether a result has the column depends on the query, not on the data."""
    rows = seen("SELECT v FROM s LATE AMEND", s=LATE)
    assert short(rows) == [(1, 1), (2, 1), (3, 1)]
    rows = seen("SELECT DISTINCT v, t FROM s EMIT EARLY EVERY 1 SECOND", s=LATE)
    assert [row[SHOWN] for row in rows] == [1, 1]


def test_early_answers_come_when_they_are_due() -> None:
    """The clock moves on by 1 ms whenever it is read: once when the run begins, then per batch."""
    stream = Stream(SCHEMA, [("a", v, 1) for v in range(1, 7)], ps.progress("t", delay=0))
    sql = "SELECT sum(v) AS s [RANGE 5, SLIDE 5, WA t] FROM s EMIT EARLY EVERY 2 MILLISECONDS"
    rows = seen(sql, ManualClock(step=1000), s=stream)
    said = [(row["s"], row[SHOWN]) for row in rows]
    assert said == [(3, 1), (3, -1), (10, 1), (10, -1), (21, 1)]


def test_without_time_there_are_no_early_answers() -> None:
    stream = Stream(SCHEMA, [("a", v, 1) for v in range(1, 7)], ps.progress("t", delay=0))
    sql = "SELECT sum(v) AS s [RANGE 5, SLIDE 5, WA t] FROM s EMIT EARLY EVERY 2 MILLISECONDS"
    assert [(row["s"], row[SHOWN]) for row in seen(sql, s=stream)] == [(21, 1)]


def test_a_timer_is_due_after_its_time() -> None:
    clock = ManualClock()
    timer = EarlyTimer(clock, 10)
    due = []
    for step in (9, 1, 5, 30, 0, 10):
        clock.advance(step)
        due.append(timer.passes(clock.now()))
    assert due == [False, True, False, True, False, True]
    assert EarlyTimer(clock, None).due is None
    assert not EarlyTimer(clock, None).passes(clock.now())


# --- queries over revised results ----------------------------------------------------------------

TUPLES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-3, 3), st.integers(0, 30)), max_size=20
)
CLAUSES = ["LATE AMEND", "LATE AMEND FOR 4", "LATE AMEND FOR 4 EMIT EARLY EVERY 1 SECOND"]


@pytest.mark.parametrize("clauses", CLAUSES)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT max(n) AS n [RANGE 12, SLIDE 6, WA window_start] FROM"
        " (SELECT k, sum(v) AS n [RANGE 6, SLIDE 3, WA t] FROM s GROUP BY k)",
        "SELECT DISTINCT n, window_end FROM"
        " (SELECT count(*) AS n [RANGE ALL, SLIDE 4, WA t] FROM s)",
        "SELECT u, count(*) AS n FROM (SELECT t + 1 AS u, k, sum(v) AS v FROM s GROUP BY u, k)"
        " GROUP BY u",
        "SELECT sum(v) AS v [RANGE 4, SLIDE 2, WA t] FROM (SELECT DISTINCT k, v, t FROM s)",
        "SELECT k, n FROM (SELECT k, count(*) AS n [RANGE 4, SLIDE 2, WA t] FROM s GROUP BY k)"
        " WHERE n > 1",
        "SELECT count(*) AS n [RANGE 3 ROWS, SLIDE 1 ROW] FROM s",
        "SELECT sum(v) AS n [RANGE 3 ROWS, SLIDE 2 ROWS, WA rank(t), PA k] FROM s",
        "SELECT sum(v) AS n [RANGE 6, RATTR t, SLIDE 2 ROWS, SATTR rank(t)] FROM s",
        "SELECT k, sum(v) AS n [RANGE 6, RATTR t, SLIDE 1 ROWS] FROM s GROUP BY k",
        "SELECT sum(v) AS n [RANGE 6, RATTR t, SLIDE 3 ROWS, PA k] FROM s",
        "SELECT sum(v) AS n [RANGE 3 ROWS, SLIDE 2 ROWS, WA rank(CAST(t * 0.5 AS INT))] FROM s",
        "SELECT sum(v) AS n [RANGE 6, RATTR t + 1, SLIDE 2 ROWS, SATTR rank(t + 1)] FROM s",
        "SELECT k, sum(v) AS n [RANGE 6, RATTR t * 2, SLIDE 2 ROWS] FROM s GROUP BY k",
        "SELECT sum(v) AS n [RANGE 5, SLIDE 5, WA t] FROM s UNION ALL"
        " SELECT count(*) AS n [RANGE 3, SLIDE 3, WA t] FROM s",
    ],
)
@few
@given(rows=TUPLES)
def test_any_query(sql: str, clauses: str, rows: list[Any]) -> None:
    if "ROWS" in sql:
        clauses = clauses.partition(" EMIT")[0]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=3))
    assert_same(f"{sql} {clauses}", s=stream)
    if "EARLY" in clauses:  # now in time
        found = locally(f"{sql} {clauses}", 1, ManualClock(step=400_000), s=stream)
        expected = ask(f"{sql} {clauses}", s=stream)
        assert bag(tuples(found.table)) == bag(tuples(expected.collect()))


# --- syntax --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clause", "error", "message"),
    [
        ("LATE DROP FOR 5", ParseError, "LATE DROP keeps nothing"),
        ("LATE AMEND FOR", ParseError, "expected a number"),
        ("LATE AMEND FOR 5 SECONDS", PenstockError, "a length of time"),
        ("LATE AMEND FOR 0", PenstockError, "AMEND FOR 0"),
        ("LATE AMEND FOR 5 ROWS", BindError, "not a unit of time"),
    ],
)
def test_how_long_can_be_wrong(clause: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        database(s=LATE).sql(f"SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s {clause}")


def test_how_long_is_shown() -> None:
    query = database(s=LATE).sql(
        "SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s EMIT IN ORDER LATE AMEND FOR 2.0"
    )
    assert isinstance(query, ps.Query)
    assert query.explain().startswith("Query LATE AMEND FOR 2.0 EMIT IN ORDER\n")


# --- what is left --------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from([None, 0.0, -0.0, float("nan")]), st.booleans())))
def test_final_rows(given_rows: list[tuple[float | None, bool]]) -> None:
    """Rows that are taken back must have been given; which one of several alike does not matter."""
    left: list[str] = []
    kept = []
    for value, gives in given_rows:
        if gives:
            left.append(repr(value))
        elif repr(value) in left:
            left.remove(repr(value))
        else:
            continue
        kept.append((value, 1 if gives else -1))
    table = pa.table(
        {
            "x": pa.array([value for value, _ in kept], pa.float64()),
            SIGN: pa.array([sign for _, sign in kept], pa.int8()),
        }
    )
    found = final_rows(table)
    assert found.schema.names == ["x"]
    assert sorted(map(repr, found.column("x").to_pylist())) == sorted(left)
