"""What is written as for Spark means what Spark means: the same text, answered by both."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock as ps

MOMENTS = [0, 3, 3, 5, 10, 11, 18, 24, 24, 31, -7, -2]
COLUMNS: dict[str, Any] = {
    "n": list(range(12)),
    "k": ["a", "b", "a", None, "a", "b", "b", "a", None, "a", "b", "a"],
    "x": [1, 2, None, 4, 7, -3, None, 8, 9, -8, 5, 6],
    "y": [1.5, None, 2.5, -0.5, 0.0, 7.25, 3.0, None, 1.0, 2.0, 4.5, -1.0],
    "a": [[1, 2], [], None, [3], [None, 4], [5], [6], [7, 7], [8], [9], [], [0]],
    "ts": [datetime.fromtimestamp(1_750_000_000 + each, UTC) for each in MOMENTS],
}
TYPES = [
    *(pa.int32(), pa.string(), pa.int32(), pa.float64(), pa.list_(pa.int32())),
    pa.timestamp("us", tz="UTC"),
]
QUERIES = [
    "SELECT window.start, window.end, k, count(*) AS n FROM s"
    " GROUP BY window(ts, '7 seconds', '3 seconds'), k",
    "SELECT window, sum(x) AS total FROM s GROUP BY window(ts, '10 seconds')",
    "SELECT window.start AS w, avg(x) AS mean, count(x) AS n FROM s"
    " GROUP BY window(ts, '10 seconds', '5 seconds', '4 seconds') HAVING n > 1",
    "SELECT session_window.start, session_window.end, k, count(*) AS n FROM s"
    " GROUP BY session_window(ts, '6 seconds'), k",
    "SELECT session_window, min(x) AS least FROM s GROUP BY session_window(ts, '7 seconds')",
    "SELECT n, x / 2 AS a, x DIV 2 AS b, x % 2 AS c, 7 / 2 AS d, -7 DIV 2 AS e FROM s",
    "SELECT window.start, avg(x) AS mean, avg(n) AS number FROM s"
    " GROUP BY window(ts, '20 seconds')",
    "SELECT window.end, upper(k) AS name, max_by(n, x) AS best, count_if(x > 1) AS many,"
    " sum(x) FILTER (WHERE y > 0) AS some FROM s GROUP BY window(ts, '20 seconds'), name"
    " HAVING many > 0",
    "SELECT * EXCEPT (a, ts) FROM s WHERE x > 1",
    "SELECT n, item FROM s LATERAL VIEW explode(a) u AS item",
    "SELECT n, pos, item FROM s LATERAL VIEW OUTER posexplode(a) u AS pos, item",
    "SELECT n, explode(a) FROM s",
    "SELECT n, explode_outer(a) AS item FROM s",
    "SELECT struct(k, x + 1, y AS z) AS v, named_struct('p', n, 'q', k) AS w FROM s",
    "SELECT element_at(a, 1) AS first, size(a) AS many, array(n, x) AS pair, map('k', n) AS m"
    " FROM s WHERE a IS NOT NULL AND size(a) > 0",
    "SELECT n, lag(x) IGNORE NULLS OVER w AS before, last_value(y) IGNORE NULLS OVER w AS latest,"
    " first_value(x, TRUE) OVER w AS first, row_number() OVER w AS number FROM s"
    " WINDOW w AS (PARTITION BY k ORDER BY ts, n)",
    "SELECT n, ntile(3) OVER w AS part, percent_rank() OVER w AS rank, cume_dist() OVER w AS share,"
    " nth_value(x, 2) OVER w AS second FROM s"
    " WINDOW w AS (PARTITION BY date_trunc('minute', ts) ORDER BY n)",
    "SELECT n, sum(x) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING"
    " AND CURRENT ROW) AS near FROM s",
    "SELECT date_trunc('minute', ts) AS minute, k, count(*) AS n FROM s GROUP BY ALL",
    "SELECT date_format(ts, 'yyyy-MM-dd HH:mm:ss') AS t, date_add(CAST(ts AS DATE), 3) AS d,"
    " concat_ws('-', k, 'x') AS c, lpad(k, 3, '0') AS p, nvl(x, 0) AS z, x <=> 1 AS e FROM s",
]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    arrays = [pa.array(each, of) for each, of in zip(COLUMNS.values(), TYPES, strict=True)]
    return pa.table(arrays, names=list(COLUMNS))


@pytest.mark.parametrize("sql", QUERIES)
def test_the_same_as_spark(spark: SparkSession, table: pa.Table, sql: str) -> None:
    spark.createDataFrame(table).createOrReplaceTempView("s")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        theirs = spark.sql(sql).toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
        spark.catalog.dropTempView("s")
    db = ps.connect("local")
    db.stream("s", table, progress=ps.progress("ts", delay="1 hour"))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    ours = query.collect()
    assert ours.schema.names == theirs.schema.names
    assert _bag(ours) == _bag(theirs)


def _bag(table: pa.Table) -> list[str]:
    return sorted(repr([_plain(value) for value in row.values()]) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    """A moment in UTC; what holds others, by its values."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
