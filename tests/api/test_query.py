"""Queries: what `sql` gives back, the rows, and the account of those that did not take part."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps

ROWS = [{"k": k, "t": t} for k, t in (("a", 1), ("b", 12), ("a", 3), (None, 14), ("a", 25))]
COUNT = "SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k"


@pytest.fixture
def db() -> ps.Database:
    made = ps.connect()
    made.stream("s", ROWS, progress=ps.progress("t", ordered=True))
    return made


def ask(db: ps.Database, sql: str) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def test_what_sql_gives_back(db: ps.Database) -> None:
    assert db.sql("") is None
    assert db.sql(" ; \n ;") is None
    assert db.sql("-- nothing\n") is None
    assert db.sql("CREATE STREAM other (a INT)") is None
    assert db.sql("CREATE QUERY q AS SELECT k FROM s") is None
    assert db.sql("DROP QUERY q") is None
    assert isinstance(db.sql("EXPLAIN SELECT k FROM s"), ps.Explanation)
    assert isinstance(db.sql("SELECT k FROM s"), ps.Query)


def test_the_last_statement_of_a_script_counts(db: ps.Database) -> None:
    query = ask(db, "CREATE VIEW v AS SELECT k FROM s; SELECT t FROM s")
    assert query.schema.names == ["t"]
    with pytest.raises(ps.BindError, match="would be lost"):
        db.sql("SELECT k FROM s; DROP STREAM IF EXISTS nobody")


def test_a_script_gives_every_result(db: ps.Database) -> None:
    script = "CREATE QUERY q AS SELECT k FROM s; EXPLAIN SELECT k FROM q; SELECT k FROM q"
    assert [type(each) for each in db.script(script)] == [type(None), ps.Explanation, ps.Query]


@pytest.mark.parametrize("comment", ["-- the keys\n", "/* the keys */", "\n-- the keys\n"])
def test_a_comment_behind_a_semicolon(db: ps.Database, comment: str) -> None:
    script = f"SELECT k FROM s; {comment} SELECT t FROM s; {comment}"
    assert [type(each) for each in db.script(script)] == [ps.Query, ps.Query]


def test_a_mistake_anywhere_in_a_script_and_nothing_is_carried_out(db: ps.Database) -> None:
    with pytest.raises(ps.ParseError):
        db.sql("DROP STREAM s; SELEC")
    assert db.streams == ["s"]


def test_collect_and_iterate(db: ps.Database) -> None:
    expected = [
        {"window_start": 0, "window_end": 10, "k": "a", "n": 1},
        {"window_start": 10, "window_end": 20, "k": "b", "n": 1},
        {"window_start": 10, "window_end": 20, "k": None, "n": 1},
        {"window_start": 20, "window_end": 30, "k": "a", "n": 1},
    ]
    query = ask(db, COUNT)
    assert query.collect().to_pylist() == expected
    assert list(query) == list(query) == expected


def test_schema_is_that_of_the_answer(db: ps.Database) -> None:
    for sql in ("SELECT * FROM s", COUNT, "SELECT t / 2 AS half, k IS NULL AS no FROM s"):
        query = ask(db, sql)
        assert query.collect().schema == query.schema
    assert ask(db, COUNT).schema == pa.schema(
        [
            ("window_start", pa.int64()),
            ("window_end", pa.int64()),
            ("k", pa.string()),
            ("n", pa.int64()),
        ]
    )


def test_explain_says_the_same_both_ways(db: ps.Database) -> None:
    explanation = db.sql(f"EXPLAIN {COUNT}")
    assert isinstance(explanation, ps.Explanation)
    assert ask(db, COUNT).explain() == explanation.text == str(explanation)
    assert explanation.text.startswith("Query LATE DROP\n")
    assert "source: MEMORY (list)" in explanation.text
    assert explanation.table().column("plan").to_pylist() == explanation.text.split("\n")


def test_repr(db: ps.Database) -> None:
    assert repr(ask(db, "SELECT k, t FROM s")) == "<penstock.Query k STRING, t BIGINT>"
    assert repr(db) == "<penstock.Database engine='local' streams=['s']>"


# --- what did not take part ----------------------------------------------------------------------


@pytest.mark.parametrize("late", ["", " LATE DROP", " LATE SIDE", " LATE AMEND"])
def test_late(db: ps.Database, late: str) -> None:
    query = ask(db, COUNT + late)
    assert query.late.to_pylist() == [
        {"k": "a", "t": 3, "late_bound": 12, "missed_first": 0, "missed_last": 0}
    ]
    assert query.account.late == 1
    counted = query.collect().column("n").to_pylist()
    assert counted == ([2, 1, 1, 1] if "AMEND" in late else [1, 1, 1, 1])


def test_nothing_is_late_where_nothing_waits(db: ps.Database) -> None:
    query = ask(db, "SELECT k FROM s")
    assert query.late.num_rows == 0
    assert query.account.late == 0


def test_rejected_and_account() -> None:
    db = ps.connect()
    rows: list[Any] = [{"t": 1}, {"t": None}, {"t": "x"}, (2,)]
    db.stream("s", rows, schema="t INT", progress=ps.progress("t", ordered=True))
    query = ask(db, "SELECT t FROM s")
    assert [row["t"] for row in query] == [1, 2]
    assert sorted((each["kind"], each["reason"]) for each in query.rejected.to_pylist()) == [
        ("bad row", "the str 'x' is not an INT"),
        ("no progress value", "t is NULL"),
    ]
    assert query.account.rejected == 2


def test_the_numbers_of_rows_without_progress_count_the_bad_ones() -> None:
    db = ps.connect()
    rows = [{"t": "x"}, {"t": None}]
    db.stream("s", rows, schema="t INT", progress=ps.progress("t", ordered=True))
    found = ask(db, "SELECT t FROM s").rejected.to_pylist()
    assert [(each["row"], each["reason"]) for each in found] == [
        (1, "the str 'x' is not an INT"),
        (2, "t is NULL"),
    ]


def test_late_tuples_of_two_streams_with_unlike_columns() -> None:
    db = ps.connect("reference")
    for name, key in (("l", 1), ("r", "x")):
        rows = [{"k": key, "t": 10}, {"k": key, "t": 1}]
        db.stream(name, rows, progress=ps.progress("t", ordered=True))
    query = ask(db, "SELECT l.k AS a, r.k AS b FROM l [RANGE 5], r [RANGE 5]")
    assert query.account.late == 2
    assert query.late.column("k").to_pylist() == [1, None]
    assert query.late.column("k_1").to_pylist() == [None, "x"]  # of another type
    assert query.late.column("late_bound").to_pylist() == [10, 10]


def test_a_query_runs_once() -> None:
    db = ps.connect(clock=ps.ManualClock(step=1))
    db.stream("s", [{"a": 1}], progress=ps.progress("ts", timestamps="INTERNAL"))
    query = ask(db, "SELECT ts FROM s")
    assert query.collect() is query.collect()
    assert query.account.read == 1
    assert ask(db, "SELECT ts FROM s").collect() != query.collect()


def test_times_that_datetime_cannot_hold_are_texts() -> None:
    db = ps.connect()
    query = "SELECT TIMESTAMP '9999-12-31' + INTERVAL 800000 DAYS AS t FROM s"
    db.stream("s", [{"a": 1}])
    assert list(ask(db, query)) == [{"t": "12190-04-28T00:00:00.000000Z"}]


def test_times_beside_those_are_not() -> None:
    """What a value is does not depend on the batch that it is in."""
    db = ps.connect("local")
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    times = [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), last]
    db.stream("s", [{"ts": each} for each in times], progress=ps.progress("ts", ordered=True))
    query = ask(db, "SELECT count(*) AS n [RANGE 1 HOUR, SLIDE 1 HOUR, WA ts] FROM s")
    given: list[dict[str, Any]] = []
    query.run(given.append, rows=True)
    with db.live() as live:
        asked = live.sql(query.text)
        asked.wait()
        live_rows = list(asked)
    hour = datetime.timedelta(hours=1)
    starts = [times[0], last.replace(minute=0, second=0)]
    ends = [times[0] + hour, "10000-01-01T00:00:00.000000Z"]
    for rows in (list(query), given, live_rows):
        assert [row["window_start"] for row in rows] == starts
        assert [row["window_end"] for row in rows] == ends


# --- where errors point --------------------------------------------------------------------------


def test_a_run_error_points_into_the_query(db: ps.Database) -> None:
    query = ask(db, "SELECT t,\n  abs(-9223372036854775807 - t) AS n FROM s")
    with pytest.raises(ps.RunError) as caught:
        query.collect()
    assert str(caught.value).splitlines()[:4] == [
        "9223372036854775808 is too large for BIGINT",
        "  at line 2, column 3:",
        "  2 |   abs(-9223372036854775807 - t) AS n FROM s",
        "        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]


@pytest.mark.parametrize("named", [True, False], ids=["by name", "through another query"])
def test_a_run_error_in_a_named_query_points_into_its_text(db: ps.Database, named: bool) -> None:
    db.sql("CREATE QUERY q AS SELECT t, CAST(k AS INT) AS n FROM s")
    query = db.query("q") if named else ask(db, "SELECT n FROM q WHERE TRUE AND n > 0 AND t > 1")
    with pytest.raises(ps.RunError) as caught:
        query.collect()
    assert "CAST(k AS INT)" in str(caught.value)
    assert "^^^^^^^^^^^^^^" in str(caught.value)


def test_a_run_error_is_of_a_readable_length() -> None:
    db = ps.connect()
    db.stream("s", [{"k": "x" * 1_000_000}])
    with pytest.raises(ps.RunError) as caught:
        ask(db, "SELECT CAST(k AS INT) AS n FROM s").collect()
    assert len(str(caught.value)) < 2_000
