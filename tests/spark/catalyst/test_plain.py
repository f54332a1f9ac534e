"""Queries without a stateful node by Catalyst alone: the reference engine's rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.plan.nodes.query import QueryPlan
from penstock.spark.catalyst.columns import SETTINGS
from penstock.spark.run.job import Job
from penstock.spark.session.session import setting
from penstock.spark.sources.dataframe import Frame, Sources
from tests.planning import on_spark
from tests.reference.helpers import bag, tuples
from tests.spark.tasks.test_passing import ROWS, plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def over_parquet(spark: SparkSession, folder: Path, query: QueryPlan, strict: bool = False) -> Job:
    """The query over the rows in a Parquet file."""
    rows = pa.Table.from_pylist(ROWS, plan("SELECT * FROM s").plan.schema.arrow.remove_metadata())
    path = str(folder / "rows")
    spark.createDataFrame(
        rows.rename_columns([n.split(".")[-1] for n in rows.column_names])
    ).select("id", "n", "x", "name").write.parquet(path)
    sources = Sources({"s": [Frame(spark.read.parquet(path))]}, {})
    return Job([on_spark(query)], sources, buckets=2, strict=strict)


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


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, n, x FROM s",
        "SELECT id FROM s WHERE id > 2 AND name LIKE 'b%'",
        "SELECT id FROM s WHERE n = 10 UNION ALL SELECT id FROM s",
    ],
)
def test_rows_without_a_progress_value_are_left_out(
    spark: SparkSession, tmp_path: Path, sql: str
) -> None:
    query = plan(sql, progress="n")
    job = over_parquet(spark, tmp_path, query.plan)
    rows = job.plain_rows()
    assert rows is not None
    with setting(spark, SETTINGS):
        assert "InArrow" not in physical(rows)
        assert bag(tuples(rows.toArrow())) == bag(tuples(query.collect()))


def test_they_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import Observation

    query = plan("SELECT id FROM s WHERE id > 1", progress="n")
    counts = Observation()
    rows = over_parquet(spark, tmp_path, query.plan).plain_rows(counts)
    assert rows is not None
    assert [id_ for (id_,) in rows.collect()] == [3, 4]
    assert counts.get == {"read": 4, "late": 0, "rejected": 1, "rows": 2}


def test_several_ways_cannot_be_counted_together(spark: SparkSession, tmp_path: Path) -> None:
    query = plan("SELECT id FROM s UNION ALL SELECT id FROM s", progress="n")
    assert over_parquet(spark, tmp_path, query.plan).plain_rows("counts") is None


def test_where_none_may_be_rejected_each_row_is_looked_at(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = plan("SELECT id FROM s", progress="n")
    assert over_parquet(spark, tmp_path, query.plan, strict=True).plain_rows() is None


def test_filters_are_pushed_into_the_scan(spark: SparkSession, tmp_path: Path) -> None:
    query = plan("SELECT id FROM s WHERE n >= 10 AND name LIKE 'a%'").plan
    rows = over_parquet(spark, tmp_path, query).plain_rows()
    assert rows is not None
    shown = physical(rows)
    assert "GreaterThanOrEqual(n,10)" in shown
    assert "StringStartsWith(name,a)" in shown
    assert "ReadSchema: struct<id:int,n:bigint,name:string>" in shown


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT upper(name) AS y FROM s",
        "SELECT id FROM s WHERE n + 1 > 3",
        "SELECT id FROM (SELECT id, n + 1 AS m FROM s) AS t WHERE id > 1",
    ],
)
def test_what_spark_would_do_otherwise_is_not_plain(
    spark: SparkSession, tmp_path: Path, sql: str
) -> None:
    for progress in (None, "n"):
        query = plan(sql, progress=progress)
        assert over_parquet(spark, tmp_path / str(progress), query.plan).plain_rows() is None
