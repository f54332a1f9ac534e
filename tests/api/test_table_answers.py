"""Answers over tables: bad rows, tables that change between runs, values, EXPLAIN, live queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps

ROWS = [{"x": i % 3, "y": i} for i in range(6)]
GROUPS = "SELECT x, count(*) AS n FROM t GROUP BY x ORDER BY x"
JOINED = f"SELECT ts, n FROM s JOIN ({GROUPS}) AS q ON s.x = q.x"


def database(rows: list[dict[str, Any]], engine: str = "local") -> ps.Database:
    db = ps.connect(engine)
    db.table("t", rows, schema="x INT, y INT")
    tuples = [{"x": i % 3, "ts": i} for i in range(6)]
    db.stream("s", tuples, progress=ps.progress("ts", ordered=True))
    return db


def run(rows: list[dict[str, Any]], sql: str, checkpoint: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    query = database(rows).sql(sql)
    query.run(lambda batch: found.extend(batch.to_pylist()), checkpoint=checkpoint)
    return found


def test_rows_that_a_changed_table_adds_are_given(tmp_path: Path) -> None:
    assert run(ROWS, GROUPS, tmp_path) == [{"x": x, "n": 2} for x in range(3)]
    assert run(ROWS, GROUPS, tmp_path) == []
    assert run([*ROWS, {"x": 7, "y": 0}], GROUPS, tmp_path) == [{"x": 7, "n": 1}]


def test_rows_that_were_given_and_have_changed_are_refused(tmp_path: Path) -> None:
    run(ROWS, GROUPS, tmp_path)
    with pytest.raises(ps.PenstockError, match="are not those that were read"):
        run([*ROWS, {"x": 0, "y": 0}], GROUPS, tmp_path)


def test_another_answer_is_another_query(tmp_path: Path) -> None:
    run(ROWS, JOINED, tmp_path)
    with pytest.raises(ps.PenstockError, match="belongs to another query"):
        run(ROWS, JOINED.replace("count(*)", "max(y)"), tmp_path)


def test_what_tuples_are_looked_up_in_is_computed_by_every_run(tmp_path: Path) -> None:
    assert [row["n"] for row in run(ROWS, JOINED, tmp_path)] == [2] * 6
    assert run([*ROWS, {"x": 0, "y": 0}], JOINED, tmp_path) == []


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_bad_rows_are_told_once(engine: str) -> None:
    rows = [*ROWS, {"x": "oops", "y": 1}]
    sql = "SELECT ts FROM s JOIN t ON s.x = t.x WHERE ts < (SELECT max(y) FROM t)"
    query = database(rows, engine).sql(sql)
    assert query.collect().num_rows == 10
    assert [each["stream"] for each in query.rejected.to_pylist()] == ["t"]
    alone = database(rows, engine).sql("SELECT count(*) AS n FROM t")
    assert alone.collect().to_pylist() == [{"n": 6}]
    assert [each["kind"] for each in alone.rejected.to_pylist()] == ["bad row of a table"]


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_several_rows_for_a_value_are_an_error(engine: str) -> None:
    query = database(ROWS, engine).sql("SELECT ts, (SELECT y FROM t WHERE x = 1) AS y FROM s")
    with pytest.raises(ps.PenstockError, match="has 2 rows") as caught:
        query.collect()
    assert "(SELECT y FROM t WHERE x = 1)" in str(caught.value)


def test_a_strict_run_stops_at_a_bad_row() -> None:
    db = ps.connect("local", strict=True)
    db.table("t", [{"x": "oops"}], schema="x INT")
    with pytest.raises(ps.PenstockError, match="table t: row 1"):
        db.sql("SELECT count(*) AS n FROM t").collect()


def test_a_table_that_an_answer_is_made_of_cannot_be_dropped() -> None:
    db = database(ROWS)
    db.sql(f"CREATE VIEW v AS {GROUPS}")
    with pytest.raises(ps.PenstockError, match="table t is read by v"):
        db.sql("DROP TABLE t")


def test_explain_shows_what_an_answer_is_made_of() -> None:
    text = database(ROWS).sql(JOINED).explain()
    assert "RunningAggregate count(*)" in text
    assert "Scan t" in text


def test_live_queries_are_looked_up_in_answers() -> None:
    with database(ROWS).live() as live:
        values = live.sql("SELECT n + (SELECT max(y) FROM t) AS n FROM (" + JOINED + ") AS j")
        live.sql("CREATE MATERIALIZED VIEW v AS SELECT x, count(*) AS n FROM s GROUP BY x")
        counts = live.sql("SELECT count(*) AS keys FROM v")
        live.wait()
        assert [row["n"] for row in values] == [7] * 6
        assert list(counts)[-1] == {"keys": 3, "_sign": 1}
