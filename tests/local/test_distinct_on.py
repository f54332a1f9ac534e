"""DISTINCT ON: the rows and late tuples of the reference under every cut, order of arrival and
restart, and against a loop over all windows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.state import MemoryStore
from penstock.model.clock import ManualClock
from penstock.model.punctuation import sign_name
from penstock.runs.collected_answer import final_rows
from tests.local.helpers import assert_same, locally, recut
from tests.local.resumed import run_in_parts
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples

SCHEMA = "k STRING, d DOUBLE, x INT, t INT"
WINDOWS = (
    "RANGE 6, SLIDE 6",
    "RANGE 10, SLIDE 3",
    "RANGE 2, SLIDE 5",
    "RANGE 7, SLIDE 2, ORIGIN 3",
)
SELECTS = (
    "SELECT DISTINCT ON (k) k, d, x [{}, WA t] FROM s {} LATE SIDE",
    "SELECT DISTINCT ON (k, d) x, t, window_id, window_end - t AS rest [{}, WA t] FROM s {} "
    "LATE SIDE",
    "SELECT DISTINCT ON (x % 2) * [{}, WA t] FROM s WHERE x > 0 {} LATE SIDE",
    "SELECT DISTINCT ON (k) window_start [{}, WA t] FROM s {} LATE SIDE",
    "SELECT DISTINCT ON (one) one, d [{}, WA t] FROM (SELECT 1 AS one, d, t FROM s) AS q {} "
    "LATE SIDE",
)
ORDERS = ("", "ORDER BY t", "ORDER BY t DESC")
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
        st.sampled_from([None, 0, 1, 2, 3]),
        st.integers(-5, 25),
    ),
    max_size=20,
)


@settings(deadline=None, max_examples=120)
@given(
    data=st.data(),
    rows=ROWS,
    select=st.sampled_from(SELECTS),
    window=st.sampled_from(WINDOWS),
    order=st.sampled_from(ORDERS),
    delay=st.sampled_from([0, 4, 100]),
    restart=st.integers(1, 4),
)
def test_one_answer(
    data: st.DataObject,
    rows: list[Row],
    select: str,
    window: str,
    order: str,
    delay: int,
    restart: int,
) -> None:
    sql = select.format(window, order)
    streams = {"s": Stream(SCHEMA, rows, ps.progress("t", delay=delay))}
    assert_same(sql, **streams)
    db = database(**streams)
    recut(db, 3)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    store = MemoryStore()
    parts = run_in_parts(query.plan, restart, lambda: store)
    expected = bag(tuples(query.collect()))
    assert bag(tuples(parts.rows)) == expected
    if delay == 100:
        turned = data.draw(st.permutations(rows))
        found = ask(sql, s=Stream(SCHEMA, turned, ps.progress("t", delay=delay))).collect()
        assert bag(tuples(found)) == expected


@settings(deadline=None, max_examples=60)
@given(rows=ROWS, last=st.booleans(), length=st.integers(1, 9), slide=st.integers(1, 9))
def test_the_definition(rows: list[Row], last: bool, length: int, slide: int) -> None:
    """Window w holds the values from (w + 1)·SLIDE − RANGE to before (w + 1)·SLIDE."""
    expected = []
    for wid in range(-20, 40):
        end = (wid + 1) * slide
        inside = [row for row in rows if end - length <= row[3] < end]
        for key in {row[0] for row in inside}:
            own = [row for row in inside if row[0] == key]
            # NULL behind the numbers
            own.sort(key=lambda row: (row[3], row[2] is None, row[2] or 0))
            expected.append((end - length, end, key, own[-1 if last else 0][2]))
    order = "ORDER BY k, t DESC" if last else ""
    sql = f"SELECT DISTINCT ON (k) k, x [RANGE {length}, SLIDE {slide}, WA t] FROM s {order}"
    promise = ps.progress("t", delay=100)
    assert bag(tuples(ask(sql, s=Stream(SCHEMA, rows, promise)).collect())) == bag(expected)


def test_rows_of_a_window_come_in_the_order_of_the_keys() -> None:
    rows = [("b", 1.0, 1, 1), (None, 1.0, 2, 2), ("a", 1.0, 3, 3), ("b", 1.0, 4, 12)]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=5))
    sql = "SELECT DISTINCT ON (k) k [RANGE 10, SLIDE 10, WA t] FROM s"
    assert [row[2] for row in tuples(locally(sql, 1, s=stream).table)] == ["a", "b", None, "b"]


# --- rows that are revised -----------------------------------------------------------------------

REVISED = (
    "SELECT DISTINCT ON (k) k, d, x [{}, WA t] FROM s {}",
    "SELECT DISTINCT ON (k, d) x, t, window_id [{}, WA t] FROM s WHERE x > 0 {}",
    "SELECT DISTINCT ON (k) window_start [{}, WA t] FROM s {}",
    "SELECT k, CAST(y AS INT) AS y FROM"
    " (SELECT DISTINCT ON (k) k, CAST(x AS STRING) AS y [{}, WA t] FROM s {})",
    "SELECT count(*) AS n, sum(x) AS y [RANGE 9, SLIDE 4, WA window_end] FROM"
    " (SELECT DISTINCT ON (k) x [{}, WA t] FROM s {})",
)
CLAUSES = (
    "LATE AMEND",
    "LATE AMEND FOR 4",
    "EMIT EARLY EVERY 1 SECOND",
    "LATE AMEND FOR 7 EMIT EARLY EVERY 1 SECOND",
)


@settings(deadline=None, max_examples=80)
@given(
    rows=ROWS,
    select=st.sampled_from(REVISED),
    window=st.sampled_from(WINDOWS),
    order=st.sampled_from(ORDERS),
    clauses=st.sampled_from(CLAUSES),
    delay=st.sampled_from([0, 4]),
    restart=st.integers(1, 4),
)
def test_what_is_left_of_revised_rows(
    rows: list[Row],
    select: str,
    window: str,
    order: str,
    clauses: str,
    delay: int,
    restart: int,
) -> None:
    sql = f"{select.format(window, order)} {clauses}"
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=delay))
    assert_same(sql, s=stream)
    expected = bag(tuples(ask(sql, s=stream).collect()))
    if "EARLY" in clauses:  # now in time
        found = locally(sql, 1, ManualClock(step=400_000), s=stream)
        assert bag(tuples(found.table)) == expected
    db = database(s=stream)
    recut(db, 3)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    store = MemoryStore()
    parts = run_in_parts(query.plan, restart, lambda: store)
    assert bag(tuples(final_rows(parts.rows, sign_name([])))) == expected


def test_what_is_taken_back() -> None:
    """A late tuple takes the place of the row of its key, and leaves others alone."""
    rows = [("a", 1.0, 1, 2), ("b", 1.0, 2, 3), ("a", 1.0, 3, 12), ("a", 1.0, 4, 1)]
    stream = Stream(SCHEMA, [*rows, ("a", 1.0, 5, 4)], ps.progress("t", delay=0))
    sql = "SELECT DISTINCT ON (k) k, x [RANGE 10, SLIDE 10, WA t] FROM s LATE AMEND"
    said = [("a", 1, 1), ("b", 2, 1), ("a", 1, -1), ("a", 4, 1), ("a", 3, 1)]
    assert [row[2:] for row in _seen(sql, ManualClock(), stream)] == said


def test_early_answers() -> None:
    """The clock moves on by 1 ms whenever it is read: once when the run begins, then per batch."""
    rows = [("a", 1.0, x, t) for x, t in ((1, 4), (2, 3), (3, 5), (4, 1), (5, 2), (6, 9))]
    sql = (
        "SELECT DISTINCT ON (k) x [RANGE 10, SLIDE 10, WA t] FROM s EMIT EARLY EVERY 2 MILLISECONDS"
    )
    found = _seen(sql, ManualClock(step=1000), Stream(SCHEMA, rows, ps.progress("t", delay=9)))
    assert [row[2:] for row in found] == [(2, 1), (2, -1), (4, 1)]


def test_a_row_that_fails_while_it_is_provisional_is_not_given() -> None:
    rows = [("a", 1.0, 0, 2), ("9", 1.0, 0, 12), ("3", 1.0, 0, 1)]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=0))
    below = "SELECT DISTINCT ON (d) k [RANGE 10, SLIDE 10, WA t] FROM s"
    sql = f"SELECT CAST(k AS INT) AS y FROM ({below}) LATE AMEND FOR 15"
    assert _seen(sql, ManualClock(), stream) == [(3, 1), (9, 1)]
    with pytest.raises(ps.PenstockError, match="'a'"):
        _seen(sql, ManualClock(), Stream(SCHEMA, rows[:2], ps.progress("t", delay=0)))


def _seen(sql: str, clock: ManualClock, stream: Stream) -> list[tuple[Any, ...]]:
    """The rows that a sink sees, of batches of one row."""
    db = ps.connect("local", clock=clock)
    db.stream("s", stream.rows, schema=stream.schema, progress=stream.progress)
    recut(db, 1)
    rows: list[tuple[Any, ...]] = []
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    query.run(lambda row: rows.append(tuple(row.values())), rows=True)
    return rows
