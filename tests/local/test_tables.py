"""Streams looked up in tables: the rows of the reference, however batches are cut, after restarts,
beside windows, with late tuples, and with bad rows in the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.state import MemoryStore
from penstock.runs.answer import Account
from tests.local.helpers import assert_same, locally, recut
from tests.local.resumed import run_in_parts
from tests.reference.helpers import Row, Stream, Table, ask, bag, database, tuples

SCHEMA = "k STRING, x INT, t INT"
TABLES = {"r": "k STRING, v INT", "q": "v INT, name STRING"}
JOINS = (
    "SELECT * FROM s JOIN r ON s.k = r.k",
    "SELECT s.t, r.* FROM r JOIN s ON s.k = r.k AND r.v > 1",
    "SELECT * FROM s LEFT JOIN r ON s.k = r.k AND s.x > 0",
    "SELECT * FROM s LEFT JOIN r ON s.k = r.k AND r.v > 1 WHERE v IS NULL OR v <> 3",
    "SELECT * FROM r RIGHT JOIN s ON s.k = r.k",
    "SELECT * FROM s SEMI JOIN r ON s.k = r.k AND s.x < r.v",
    "SELECT * FROM s ANTI JOIN r ON s.k = r.k AND s.x = 1",
    "SELECT * FROM s WHERE x IN (SELECT v FROM r)",
    "SELECT * FROM s WHERE x NOT IN (SELECT v FROM r WHERE r.k = s.k)",
    "SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.v = s.x) AND k IS NOT NULL",
    "SELECT * FROM s CROSS JOIN q",
    "SELECT * FROM s WHERE EXISTS (SELECT 1 FROM r, q WHERE r.v = q.v AND r.k = s.k)",
    "SELECT * FROM s WHERE x NOT IN (SELECT q.v FROM r JOIN q ON r.v = q.v WHERE q.name > s.k)",
    "SELECT * FROM s, r, q WHERE s.k = r.k AND r.v = q.v",
    "SELECT * FROM q JOIN r ON q.v = r.v LEFT JOIN r AS r2 ON r2.k = q.name",
    "SELECT * FROM q, r, s WHERE r.v = q.v AND s.k = r.k AND s.x <> q.v",
    "SELECT * FROM s JOIN r ON s.k = r.k LEFT JOIN q ON r.v = q.v AND q.name > s.k",
    "SELECT * FROM s JOIN (SELECT v + 1 AS w, k AS c FROM r WHERE v > 1) AS z ON z.c = s.k",
    "SELECT * FROM s JOIN (SELECT k FROM r UNION ALL SELECT name AS k FROM q) AS u ON s.k = u.k",
    "SELECT * FROM (SELECT * FROM s WHERE x > 0) AS p JOIN r ON p.k = r.k",
    "SELECT v, count(*) AS n, sum(x) AS x [RANGE 6, SLIDE 3, WA t] FROM s JOIN r ON s.k = r.k "
    "GROUP BY v LATE SIDE",
    "SELECT count(name) AS n [RANGE 3 ROWS, SLIDE 2 ROWS] FROM s LEFT JOIN q ON s.x = q.v",
    "SELECT DISTINCT t, v FROM s JOIN r ON s.k = r.k LATE SIDE",
    "SELECT w.*, v FROM (SELECT k, count(*) AS n [RANGE 6, SLIDE 6, WA t] FROM s GROUP BY k) AS w "
    "LEFT JOIN r ON w.k = r.k AND v > n",
    "SELECT t, v FROM s JOIN r ON s.k = r.k EMIT IN ORDER",
    "SELECT v, count(*) AS n [RANGE 6, SLIDE 6, WA t] FROM s JOIN r ON s.k = r.k GROUP BY v "
    "LATE AMEND",
)
KEYS = st.sampled_from(["a", "b", None])
NUMBERS = st.sampled_from([None, 0, 1, 2, 3])


@settings(deadline=None, max_examples=120)
@given(
    sql=st.sampled_from(JOINS),
    rows=st.lists(st.tuples(KEYS, NUMBERS, st.integers(0, 20)), max_size=14),
    r=st.lists(st.tuples(KEYS, NUMBERS), max_size=6),
    q=st.lists(st.tuples(NUMBERS, KEYS), max_size=4),
    delay=st.sampled_from([0, 5, 50]),
)
def test_one_answer(sql: str, rows: list[Row], r: list[Row], q: list[Row], delay: int) -> None:
    streams = _streams(rows, r, q, delay)
    assert_same(sql, **streams)
    db = database(**streams)
    recut(db, 3)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    store = MemoryStore()
    parts = run_in_parts(query.plan, 2, lambda: store)
    if not query.plan.revises:
        assert bag(tuples(parts.rows)) == bag(tuples(ask(sql, **streams).collect()))


def _streams(rows: list[Row], r: list[Row], q: list[Row], delay: int) -> dict[str, Any]:
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=delay))
    return {"s": stream, "r": Table(TABLES["r"], r), "q": Table(TABLES["q"], q)}


S = Stream(SCHEMA, [("a", 1, 1), ("b", 2, 2), ("a", 3, 3)], ps.progress("t", delay=0))


def test_the_order_of_results_is_that_of_tuples_and_rows() -> None:
    r = Table(TABLES["r"], [("b", 1), ("a", 2), ("a", 3)])
    found = locally("SELECT t, v FROM s LEFT JOIN r ON s.k = r.k", 2, s=S, r=r)
    assert tuples(found.table) == [(1, 2), (1, 3), (2, 1), (3, 2), (3, 3)]


# --- what is read, and what is rejected ----------------------------------------------------------


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_bad_rows_of_a_table_are_rejected_and_not_among_the_rows_that_are_read(engine: str) -> None:
    db = ps.connect(engine)
    db.stream("s", S.rows, schema=SCHEMA, progress=S.progress)
    db.table("r", [("a", 1), ("a", "many"), ("b", 2)], schema=TABLES["r"])
    query = db.sql("SELECT t, r.v, r2.v AS w FROM s JOIN r ON s.k = r.k JOIN r AS r2 ON r.v = r2.v")
    assert isinstance(query, ps.Query)
    assert query.collect().num_rows == 3
    assert query.account == Account(read=3, late=0, rejected=1)
    (reject,) = query.rejected.to_pylist()
    assert (reject["kind"], reject["stream"], reject["row"]) == ("bad row of a table", "r", 2)
    two = [db.sql("SELECT t FROM s JOIN r ON s.k = r.k"), db.sql("SELECT 1 AS x FROM s, r")]
    accounts = db.run([each for each in two if isinstance(each, ps.Query)], [print, print])
    assert accounts == [Account(3, 0, 1)] * 2


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_a_strict_run_stops_at_a_bad_row_of_a_table(engine: str) -> None:
    db = ps.connect(engine, strict=True)
    db.stream("s", S.rows, schema=SCHEMA, progress=S.progress)
    db.table("r", [("a", 1), ("a", "many")], schema=TABLES["r"])
    query = db.sql("SELECT t, v FROM s JOIN r ON s.k = r.k")
    assert isinstance(query, ps.Query)
    with pytest.raises(ps.SourceError, match="table r: row 2, column v") as caught:
        query.collect()
    assert caught.value.expected == "rows that fit the table, because the run is strict"


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_a_table_without_a_source(engine: str) -> None:
    db = ps.connect(engine)
    db.stream("s", S.rows, schema=SCHEMA, progress=S.progress)
    query = db.sql("CREATE TABLE r (k STRING); SELECT t FROM s JOIN r ON s.k = r.k")
    assert isinstance(query, ps.Query)
    with pytest.raises(ps.SourceError, match="table r has no source") as caught:
        query.collect()
    assert caught.value.hint is not None
    assert "db.table" in caught.value.hint


def test_a_table_is_read_once_by_every_run_before_the_first_tuple() -> None:
    """However many look into it; and anew by the next run, so it may have changed."""
    seen: list[str] = []

    def rates() -> list[Row]:
        seen.append("table")
        return [("a", len(seen))]

    def tuples_of_s() -> Any:
        for row in S.rows:
            seen.append("tuple")
            yield row

    db = ps.connect("local")
    db.stream("s", tuples_of_s, schema=SCHEMA, progress=S.progress)
    db.table("r", rates, schema=TABLES["r"])
    text = "SELECT r.v FROM s JOIN r ON s.k = r.k LEFT JOIN r AS r2 ON s.x = r2.v"
    first, second = db.sql(text), db.sql(text)
    assert isinstance(first, ps.Query)
    assert isinstance(second, ps.Query)
    db.run([first, second], [lambda _: seen.append("rows")] * 2)
    assert seen.count("table") == 1
    assert seen.index("table") < seen.index("rows")
    assert set(second.collect()["v"].to_pylist()) == {len(seen)}


def test_a_checkpoint_does_not_hold_the_table(tmp_path: Path) -> None:
    source, table = tmp_path / "s.csv", tmp_path / "r.csv"
    source.write_text("k,t\na,1\nb,2\n")
    table.write_text("k,v\na,1\nb,1\n")
    script = f"""
        CREATE STREAM s (k STRING, t INT) FROM FILES '{source}' PROGRESS ON t DELAY 0;
        CREATE TABLE r (k STRING, v INT) FROM FILES '{table}';
        SELECT v, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s JOIN r ON s.k = r.k GROUP BY v"""

    def run(final: bool) -> list[dict[str, Any]]:
        query = ps.connect("local").sql(script)
        assert isinstance(query, ps.Query)
        rows: list[dict[str, Any]] = []
        query.run(rows.append, rows=True, checkpoint=tmp_path / "checkpoint", final=final)
        return rows

    assert run(final=False) == []
    with source.open("a") as more:
        more.write("b,3\n")
    table.write_text("k,v\nb,7\n")
    found = run(final=True)
    assert [(row["v"], row["n"]) for row in found] == [(1, 2), (7, 1)]


def test_revised_results_are_looked_up() -> None:
    """Where something may fail behind the table, they come when they are final."""
    rows = [("a", 1, 1), ("a", 1, 25), ("b", 1, 22), ("a", 1, 3)]
    sql = (
        "SELECT n, v FROM (SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k) w "
        "JOIN r ON w.k = r.k {}"
    )
    streams: dict[str, Any] = {
        "s": Stream(SCHEMA, rows, ps.progress("t", delay=5)),
        "r": Table(TABLES["r"], [("a", 1), ("b", 2)]),
    }
    once = Stream(SCHEMA, rows[:3], ps.progress("t", delay=5))
    assert_same(sql.format("LATE AMEND"), **streams)
    fails = "CASE WHEN n = 1 AND window_start = 0 THEN 'none' ELSE '7' END"  # but not in the end
    for late in ("LATE AMEND", "LATE AMEND FOR 30"):
        assert_same(sql.format(f"AND CAST({fails} AS INT) > v {late}"), **streams)
        assert_same(f"SELECT CAST({fails} AS INT) AS x, v {sql[12:].format(late)}", **streams)
        with pytest.raises(ps.PenstockError, match="none"):
            locally(sql.format(f"AND CAST({fails} AS INT) > v {late}"), s=once, r=streams["r"])
    with pytest.raises(ps.EngineError, match="no early answers"):
        locally(sql.format(f"AND CAST({fails} AS INT) > v EMIT EARLY EVERY 1 SECOND"), **streams)
