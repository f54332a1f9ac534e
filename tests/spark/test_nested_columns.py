"""DataFrames with arrays, structs and maps, and results with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock as ps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "k INT, a ARRAY<INT>, s STRUCT<x: BIGINT, y: ARRAY<STRING>>, m MAP<STRING, DOUBLE>, t INT"
ROWS = [
    (1, [1, None], (7, ["p", None]), {"k": 1.5}, 1),
    (2, [], None, {}, 2),
    (1, None, (None, None), None, 3),
    (1, [5], (8, []), {"l": 2.0}, 4),
]
QUERIES = [
    "SELECT k, a, s, m FROM s",
    "SELECT a[1] AS a, s.x AS x, s.y[1] AS y, m['k'] AS v, cardinality(m) AS n FROM s WHERE t > 0",
    "SELECT l.a, r.s, r.m FROM s AS l JOIN s AS r ON l.k = r.k AND r.t BETWEEN l.t AND l.t + 2",
    "SELECT u AS item, count(*) AS n [RANGE 4, SLIDE 2, WA t] FROM s, UNNEST(a) AS u GROUP BY u",
    "SELECT key, value, t FROM s LEFT JOIN UNNEST(m) AS u(key, value) ON TRUE EMIT IN ORDER",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_dataframes(spark: SparkSession, sql: str) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    answers = []
    for engine in (spark, "reference"):
        db = ps.connect(engine)
        data = frame if engine is spark else frame.toArrow()
        db.stream("s", data, progress=ps.progress("t", delay=2))
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        answers.append(query.collect())
    assert answers[0].schema == answers[1].schema
    assert sorted(map(str, answers[0].to_pylist())) == sorted(map(str, answers[1].to_pylist()))


def test_a_dataframe_of_results(spark: SparkSession) -> None:
    db = ps.connect(spark)
    db.stream("s", spark.createDataFrame(ROWS, SCHEMA))
    query = db.sql("SELECT s, ARRAY[k, t] AS pair FROM s WHERE s IS NOT NULL")
    assert isinstance(query, ps.Query)
    found = [row.asDict(recursive=True) for row in query.dataframe().collect()]
    assert {"s": {"x": 7, "y": ["p", None]}, "pair": [1, 1]} in found
    assert len(found) == 3
