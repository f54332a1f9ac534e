"""Data that is out of the ordinary: skewed and NULL keys, wide rows, large values, many groups,
next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.local.scheduling.scheduler import answer as locally
from penstock.model.clock import ManualClock
from penstock.spark.run.batch_job import answer
from tests.planning import in_process, on_spark
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import streamed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEGABYTE = 1 << 20


def asked(sql: str, rows: Any, schema: str | None = None) -> ps.Query:
    db = ps.connect("reference")
    db.stream("s", rows, schema=schema, progress=ps.progress("t", delay=20))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def assert_same(spark: SparkSession, query: ps.Query, portions: int = 2) -> None:
    """In batch mode and in portions: what the local engine gives, which is fast."""
    expected = locally(in_process(query.plan), ManualClock())
    rows, late = bag(tuples(expected.table)), bag(tuples(expected.late))
    in_batch = answer(on_spark(query.plan), spark, buckets=2)
    assert bag(tuples(in_batch.table)) == rows
    assert bag(tuples(in_batch.late)) == late
    found = streamed(query, spark, portions)
    assert bag(tuples(found.table)) == rows
    assert bag(tuples(found.late)) == late
    assert found.account == in_batch.account == expected.account


def test_skewed_and_null_keys(spark: SparkSession) -> None:
    size = 20_000
    keys = [("hot" if i % 50 else None) if i % 20 else f"cold {i}" for i in range(size)]
    rows = pa.table({"k": keys, "x": range(size), "t": [i + (i * 37) % 41 for i in range(size)]})
    sql = "SELECT k, count(*) AS n, sum(x) AS total [RANGE 400, SLIDE 100, WA t] FROM s GROUP BY k"
    assert_same(spark, asked(f"{sql} LATE SIDE", rows))


def test_many_groups(spark: SparkSession) -> None:
    size = 100_000
    rows = pa.table({"k": range(size), "t": [i % 30 for i in range(size)]})
    query = asked("SELECT k, count(*) AS n [RANGE 20, SLIDE 10, WA t] FROM s GROUP BY k", rows)
    expected = locally(in_process(query.plan), ManualClock())
    assert expected.table.num_rows > size
    found = streamed(query, spark, portions=2)
    assert bag(tuples(found.table)) == bag(tuples(expected.table))
    assert found.account == expected.account


def test_two_hundred_columns(spark: SparkSession) -> None:
    columns: dict[str, Any] = {f"c{i}": [i, None, i + 1, 7] for i in range(199)}
    rows = pa.table({**columns, "t": [1, 30, 3, 64]})
    calls = ", ".join(f"sum(c{i}) AS s{i}" for i in range(199))
    assert_same(spark, asked(f"SELECT {calls} [RANGE 10, SLIDE 5, WA t] FROM s LATE SIDE", rows))


def test_texts_of_a_megabyte(spark: SparkSession) -> None:
    rows = [(letter * MEGABYTE, t) for letter, t in (("a", 1), ("b", 2), ("a", 50), ("b", 3))]
    sql = "SELECT k, count(*) AS n, max(k) AS most [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k"
    assert_same(spark, asked(f"{sql} LATE SIDE", rows, "k STRING, t INT"))


@pytest.mark.parametrize("rows", [[], [("a", 5)]])
def test_next_to_nothing(spark: SparkSession, rows: list[tuple[str, int]]) -> None:
    for keys in ("", "GROUP BY k"):
        sql = f"SELECT count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM s {keys}"
        assert_same(spark, asked(sql, rows, "k STRING, t INT"))


def test_rows_that_are_counted_come_in_order(spark: SparkSession) -> None:
    """From several buckets to a window that counts rows."""
    size = 60
    keys = ["cab"[i * 7 % 5 % 3] for i in range(size)]
    rows = pa.table({"k": keys, "x": range(size), "t": [i + i * 37 % 11 for i in range(size)]})
    producers = (
        "SELECT DISTINCT k, CAST(t * 0.1 AS INT) AS n, t FROM s",
        "SELECT k, t, sum(x) AS n FROM s GROUP BY CAST(t * 0.1 AS INT), k, t",
        "SELECT k, max(x) AS n [RANGE 6, RATTR t, SLIDE 2 ROWS, SATTR rank(t), PA k] FROM s",
    )
    for inner in producers:
        sql = f"SELECT sum(n) AS n, last(k) AS k [RANGE 3 ROWS, SLIDE 3 ROWS] FROM ({inner}) AS q"
        query = asked(sql, rows)
        expected = bag(tuples(query.collect()))
        assert bag(tuples(streamed(query, spark, portions=3).table)) == expected, inner
