"""Queries without a stateful node: the reference engine's rows, in Arrow and by Catalyst alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import penstock as ps
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Account
from penstock.sources.rejects import Reject
from penstock.spark.catalyst.columns import SETTINGS
from penstock.spark.run.answer import answer
from penstock.spark.run.job import Job
from penstock.spark.session.session import setting
from penstock.spark.sources.given import Frame, Sources
from tests.planning import on_spark
from tests.queries import bound
from tests.reference.helpers import bag, tuples
from tests.spark.helpers import streamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = ["filter_and_project", "conditions", "case", "union_all_of_selects"]
SCHEMA = "id INT, n BIGINT, x DOUBLE, name STRING"
ROWS = [
    {"id": 1, "n": 10, "x": 0.5, "name": "ann"},
    {"id": 2, "n": None, "x": float("nan"), "name": None},
    {"id": 3, "n": -7, "x": -0.0, "name": "Bob"},
    {"id": 4, "n": 10, "x": 2.5, "name": "bea"},
]


def plan(sql: str, rows: Sequence[object] = ROWS, progress: str | None = None) -> ps.Query:
    db = ps.connect("reference")
    db.stream(
        "s", rows, schema=SCHEMA, progress=ps.progress(progress, ordered=True) if progress else None
    )
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


@pytest.mark.parametrize("name", NAMES)
def test_fixture_in_micro_batches(spark: SparkSession, name: str) -> None:
    query = bound(name)
    found = streamed(query, spark, portions=3)
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    assert found.account == query.account


def test_rows_without_a_progress_value_are_set_aside(spark: SparkSession) -> None:
    query = plan("SELECT id FROM s WHERE id > 1", progress="n")
    found = answer(on_spark(query.plan), spark)
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    assert found.account == query.account == Account(4, 0, 1)
    rejects: list[Reject] = list(found.rejects)
    assert [(each.column, each.reason) for each in rejects] == [("n", "n is NULL")]


# --- by Catalyst alone ---------------------------------------------------------------------------


def over_parquet(spark: SparkSession, folder: Path, query: QueryPlan) -> Job:
    """The query over the rows in a Parquet file."""
    rows = pa.Table.from_pylist(ROWS, plan("SELECT * FROM s").plan.schema.arrow.remove_metadata())
    path = str(folder / "rows")
    spark.createDataFrame(
        rows.rename_columns([n.split(".")[-1] for n in rows.column_names])
    ).select("id", "n", "x", "name").write.parquet(path)
    return Job([on_spark(query)], Sources({"s": [Frame(spark.read.parquet(path))]}, {}), buckets=2)


def physical(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, n + 1 AS m, x FROM s WHERE name LIKE 'b%' OR x > 0.1",
        "SELECT name, coalesce(n, 0) AS n FROM s WHERE id IN (2, 3) AND x <= 0",
        "SELECT id FROM s WHERE n = 10 UNION ALL SELECT id FROM s WHERE x = 0.0",
        "SELECT CASE WHEN x > 1 THEN 'large' ELSE name END AS y, 10 % n AS r FROM s",
    ],
)
def test_a_plain_plan_gives_the_same_rows(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    query = plan(sql)
    rows = over_parquet(spark, tmp_path, query.plan).plain_rows()
    assert rows is not None
    with setting(spark, SETTINGS):
        assert "InArrow" not in physical(rows)
        assert bag(tuples(rows.toArrow())) == bag(tuples(query.collect()))


def test_filters_are_pushed_into_the_scan(spark: SparkSession, tmp_path: Path) -> None:
    query = plan("SELECT id FROM s WHERE n >= 10 AND name LIKE 'a%'").plan
    rows = over_parquet(spark, tmp_path, query).plain_rows()
    assert rows is not None
    shown = physical(rows)
    assert "GreaterThanOrEqual(n,10)" in shown
    assert "StringStartsWith(name,a)" in shown
    assert "ReadSchema: struct<id:int,n:bigint,name:string>" in shown


@pytest.mark.parametrize(
    ("sql", "progress"),
    [
        ("SELECT upper(name) AS y FROM s", None),
        ("SELECT id FROM s WHERE n + 1 > 3", None),
        ("SELECT id FROM (SELECT id, n + 1 AS m FROM s) AS t WHERE id > 1", None),
        ("SELECT id FROM s", "n"),
    ],
)
def test_what_spark_would_do_otherwise_is_not_plain(
    spark: SparkSession, tmp_path: Path, sql: str, progress: str | None
) -> None:
    assert over_parquet(spark, tmp_path, plan(sql, progress=progress).plan).plain_rows() is None
