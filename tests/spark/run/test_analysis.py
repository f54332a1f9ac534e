"""EXPLAIN ANALYZE on Spark: what tasks and buckets have measured, put together by node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import EngineError
from tests.api.test_analyzing import without_times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 120


def told(spark: SparkSession, sql: str) -> str:
    db = ps.connect(spark, buckets=2)
    numbers = range(ROWS)
    table = pa.table(
        {
            "k": [number % 5 for number in numbers],
            "n": list(numbers),
            "t": [None if number == 7 else number for number in numbers],
        }
    )
    db.stream("s", table, progress=ps.progress("t", delay=2))
    db.table("names", [{"k": 0, "name": "zero"}, {"k": 1, "name": "one"}])
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return without_times(query.explain(analyze=True))


def test_windows_over_tuples_that_are_folded_before(spark: SparkSession) -> None:
    sql = (
        "SELECT s.k AS k, count(*) AS n, name [RANGE 20, SLIDE 10, WA t] FROM s, names"
        " WHERE s.k = names.k AND n >= 20 GROUP BY s.k, name HAVING count(*) > 2"
    )
    found = told(spark, sql)
    assert found.startswith("Physical plan, on Spark")
    assert "measured: 119 rows; expected" in found  # one has no time
    assert re.search(r"measured: 119 in, 100 out, f = 0.84, τ = #\n.*expected: ", found)
    assert re.search(r"measured: 100 in, 40 out, f = 0.4, τ = #\n", found)  # two of five keys
    (before, panes) = re.findall(r"before the shuffle: (\d+) in, (\d+) partial panes", found)[0]
    assert (before, panes) == ("40", "20")
    assert "measured: 40 in, 22 out, f = 0.55, τ = #, # of state" in found
    assert "120 rows read, 18 written, 0 late, 1 rejected, in #" in found
    assert re.search(r"stage 1: Paned, \d+ messages of #, 2 buckets, # in its operator", found)


def test_stages_that_feed_each_other(spark: SparkSession) -> None:
    found = told(
        spark,
        "SELECT max(n) AS most [RANGE 40, SLIDE 40, WA window_start] FROM"
        " (SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k) AS q",
    )
    assert "measured: 119 in, 60 out" in found
    assert "measured: 60 in, 3 out" in found
    assert "120 rows read, 3 written" in found
    assert [line.split(",")[0] for line in found.splitlines() if "stage " in line] == [
        "  stage 1: Paned",
        "  stage 2: Paned",
    ]


def test_a_join_keeps_tuples(spark: SparkSession) -> None:
    found = told(spark, "SELECT a.n FROM s [RANGE 5] AS a, s [RANGE 5] AS b WHERE a.n = b.n")
    assert "measured: 238 in, 119 out, f = 0.5, τ = #, kept" in found
    assert found.count("measured: 119 rows") == 2


def test_without_a_stage(spark: SparkSession) -> None:
    found = told(spark, "SELECT k FROM s WHERE n < 30")
    assert "measured: 119 in, 29 out, f = 0.244" in found
    assert "120 rows read, 29 written, 0 late, 1 rejected, in #" in found
    assert "Stages" not in found


def test_what_does_not_end_is_refused(spark: SparkSession) -> None:
    db = ps.connect(spark)
    db.stream("s", spark.readStream.format("rate").load())
    query = db.sql("SELECT value FROM s")
    assert isinstance(query, ps.Query)
    with pytest.raises(EngineError, match="streaming DataFrame: EXPLAIN ANALYZE runs a query to"):
        query.explain(analyze=True)
