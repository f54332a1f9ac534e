"""Functions of the user's on Spark: they go to the workers, before the shuffle and behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

import penstock as ps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [{"s": each, "t": t} for t, each in enumerate(["abca", None, "", "aa", "b"])]
QUERIES = [
    "SELECT count_char(s, 'a') AS n, t FROM s WHERE count_char(s, 'b') = 0",
    "SELECT double(sum(count_char(s, 'a'))) AS n [RANGE 3, SLIDE 3, WA t] FROM s"
    " GROUP BY double(t)",
]


def database(engine: str | SparkSession) -> ps.Database:
    db = ps.connect(engine)
    db.stream("s", ROWS, progress=ps.progress("t", delay=2))
    db.function("count_char", str.count, args=["STRING", "STRING"], returns="BIGINT", by_row=True)
    db.function("double", lambda x: pc.multiply(x, 2), args=["BIGINT"], returns="BIGINT")
    db.function("fails", lambda x: 1 // 0, args=["BIGINT"], returns="BIGINT", by_row=True)
    return db


def rows(db: ps.Database, sql: str) -> list[str]:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return sorted(map(str, query.collect().to_pylist()))


@pytest.mark.parametrize("sql", QUERIES)
def test_the_same_rows(spark: SparkSession, sql: str) -> None:
    assert rows(database(spark), sql) == rows(database("reference"), sql) != []


def test_errors_point_at_the_call(spark: SparkSession) -> None:
    with pytest.raises(ps.RunError) as caught:
        rows(database(spark), "SELECT 1 + fails(t) AS n FROM s")
    assert "the function fails failed: ZeroDivisionError" in str(caught.value)
    assert "SELECT 1 + fails(t)" in str(caught.value)
