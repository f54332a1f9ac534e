"""Tables that are DataFrames: at hand when small, split by keys when large, beside streams and
batches; on other engines they are collected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock as ps
from tests.reference.helpers import bag, tuples
from tests.spark.streaming import files_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "k string, n int, t int"
ROWS = [("k1", 7, 1), ("none", 8, 2), (None, 9, 3), ("k2", 5, 30), ("k1", 6, 31)]
TABLE = [(f"k{n % 40}", n) for n in range(119)] + [(None, 119)]  # three rows for every key
SUMS = (
    "SELECT k, count(*) AS c, sum(v) AS v [RANGE 10, SLIDE 10, WA t]"
    " FROM (SELECT s.k, r.v, s.t FROM s LEFT JOIN r ON s.k = r.k) GROUP BY k"
)


def table(spark: SparkSession) -> DataFrame:
    """One of which Catalyst knows the size."""
    k = "CASE WHEN id = 119 THEN NULL ELSE concat('k', id % 40) END AS k"
    return spark.range(120).selectExpr(k, "CAST(id AS INT) AS v")


def asked(db: ps.Database, stream: Any, rows: Any, sql: str = SUMS) -> ps.Query:
    schema = SCHEMA if isinstance(stream, list) else None
    db.stream("s", stream, schema=schema, progress=ps.progress("t", delay=3))
    db.table("r", rows, schema="k STRING, v INT")
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    return bag(tuples(asked(ps.connect("reference"), ROWS, TABLE).collect()))


@pytest.mark.parametrize("limit", [10, 1_000_000])
def test_batch(spark: SparkSession, limit: int, expected: list[Any]) -> None:
    db = ps.connect(spark, buckets=2, broadcast_rows=limit)
    query = asked(db, spark.createDataFrame(ROWS, SCHEMA), table(spark))
    shuffled = "tuples meet by s.k" in query.explain(physical=True)
    assert shuffled == (limit == 10)
    assert "table: Scan r, source: SPARK (batch DataFrame)" in query.explain(physical=True)
    assert bag(tuples(query.collect())) == expected
    assert bag(tuple(row) for row in query.dataframe().collect()) == expected


def test_streaming(spark: SparkSession, tmp_path: Path, expected: list[Any]) -> None:
    types = pa.schema([("k", pa.string()), ("n", pa.int32()), ("t", pa.int32())])
    stream = files_stream(spark, tmp_path / "in", types, [ROWS[:3], ROWS[3:]])
    db = ps.connect(spark, buckets=2, broadcast_rows=10)
    query = asked(db, stream, table(spark))
    found: list[Any] = []
    account = query.run(lambda row: found.append(tuple(row.values())), rows=True)
    assert bag(found) == expected
    assert account.read == len(ROWS)


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_on_other_engines_it_is_collected(
    spark: SparkSession, engine: str, expected: list[Any]
) -> None:
    query = asked(ps.connect(engine), ROWS, table(spark))
    assert bag(tuples(query.collect())) == expected


def test_an_empty_one(spark: SparkSession) -> None:
    sql = "SELECT n, v FROM s LEFT JOIN r ON s.k = r.k"
    query = asked(ps.connect("local"), ROWS, table(spark).limit(0), sql)
    assert query.collect().to_pylist() == [{"n": n, "v": None} for _, n, _ in ROWS]
