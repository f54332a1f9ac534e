"""What Spark reads of a DataFrame for a query, and how the workers that it is handed to start."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.errors import SourceError
from penstock.spark.session.workers import installed_packages
from tests.reference.helpers import bag, tuples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WIDE = pa.table(
    {
        "k": ["a", "b", None, "a"],
        "n": pa.array([1, 2, 3, None], pa.int64()),
        "t": pa.array([1, 12, None, 40], pa.int64()),
        **{f"c{number}": ["x"] * 4 for number in range(50)},
    }
)
SUM = "SELECT k, sum(n) AS z [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k"


def over(spark: SparkSession, folder: Path, table: pa.Table, streaming: bool = False) -> DataFrame:
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / "0.parquet")
    frame = spark.read.parquet(str(folder))
    return spark.readStream.schema(frame.schema).parquet(str(folder)) if streaming else frame


def asked(spark: SparkSession, frame: DataFrame, sql: str, **options: Any) -> ps.Query:
    db = ps.connect(spark)
    options = {"progress": ps.progress("t", delay=5), **options}
    db.stream("s", frame, **options)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def physical(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_only_the_columns_that_are_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    query = asked(spark, over(spark, tmp_path / "in", WIDE), SUM)
    assert "ReadSchema: struct<k:string,n:bigint,t:bigint>" in physical(query.dataframe())
    assert "Catalyst reads k, n, t of 53 columns" in query.explain()
    assert bag(tuples(query.collect())) == bag(
        [(0, 10, "a", 1), (10, 20, "b", 2), (40, 50, "a", None)]
    )
    assert query.rejected.column("content").to_pylist() == ['{"k": null, "n": 3, "t": null}']


def test_late_tuples_come_with_all_their_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"t": pa.array([40, 1], pa.int64()), "k": ["a", "b"], "more": ["x", "y"]})
    frame = over(spark, tmp_path / "in", rows, streaming=True)
    query = asked(spark, frame, "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s LATE SIDE")
    assert "Catalyst reads all columns" in query.explain()
    started = query.start(lambda batch: None)
    assert started.wait().late == 1
    assert started.late.select(["t", "k", "more"]).to_pylist() == [{"t": 1, "k": "b", "more": "y"}]


def test_a_stream_with_fewer_columns_than_its_frame(spark: SparkSession, tmp_path: Path) -> None:
    frame = over(spark, tmp_path / "in", WIDE)
    query = asked(spark, frame, SUM, schema="k STRING, n INT, t BIGINT")
    assert "ReadSchema: struct<k:string,n:bigint,t:bigint>" in physical(query.dataframe())
    assert len(query.collect()) == 3


def test_a_column_that_may_reject_rows_is_read(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"k": ["a", "b"], "n": [1, 2], "t": [1, 2], "large": [7, 2**40]})
    frame = over(spark, tmp_path / "in", table)
    query = asked(spark, frame, SUM, schema="k STRING, n BIGINT, t BIGINT, large INT")
    assert "Catalyst reads all columns" in query.explain()
    assert bag(tuples(query.collect())) == bag([(0, 10, "a", 1)])
    assert query.account.rejected == 1


def test_a_column_that_is_not_there(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1)], "k string, t bigint")
    with pytest.raises(SourceError, match="the DataFrame: there is no column n"):
        asked(spark, frame, SUM, schema="k STRING, n BIGINT, t BIGINT")


def test_a_column_that_never_fits(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", "x", 1)], "k string, n string, t bigint")
    with pytest.raises(SourceError, match="column n is declared INT, but holds string"):
        asked(spark, frame, SUM, schema="k STRING, n INT, t BIGINT")


MOMENTS = "SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA t] FROM s"


@pytest.mark.parametrize(
    ("declared", "column", "given"),
    [
        ("TIMESTAMP", "timestamp", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("TIMESTAMP", "timestamp_ntz", datetime(2026, 1, 31, 12)),
        ("TIMESTAMP", "date", date(2026, 1, 31)),
        ("DATE", "date", date(2026, 1, 31)),
    ],
)
def test_times_that_are_declared(
    spark: SparkSession, declared: str, column: str, given: Any
) -> None:
    frame = spark.createDataFrame([("a", given), ("b", None)], f"k string, t {column}")
    options = {"schema": f"t {declared}", "progress": ps.progress("t", ordered=True)}
    query = asked(spark, frame, "SELECT t FROM s", **options)
    (found,) = query.collect().column("t").to_pylist()
    assert str(found).startswith("2026-01-31")
    assert query.account.rejected == 1
    if declared == "TIMESTAMP":
        assert asked(spark, frame, MOMENTS, **options).collect().num_rows == 1


@pytest.mark.parametrize("column", ["bigint", "string", "double", "array<timestamp>"])
def test_columns_that_are_no_times(spark: SparkSession, column: str) -> None:
    frame = spark.createDataFrame([], f"t {column}, u timestamp")
    with pytest.raises(SourceError, match="column t is declared TIMESTAMP, but holds"):
        asked(spark, frame, MOMENTS, schema="t TIMESTAMP")


def test_columns_that_arrow_does_not_know_can_be_left_out(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT 1L AS t, INTERVAL 1 YEAR AS far, X'01' AS x, TIMESTAMP '2026-01-31' u"
    )
    assert len(asked(spark, frame, "SELECT t FROM s", schema="t BIGINT").collect()) == 1
    with pytest.raises(SourceError, match="column far is declared INT, but holds month"):
        asked(spark, frame, "SELECT t FROM s", schema="t BIGINT, far INT")


def test_every_type_leaves_a_stateful_step_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of a streaming DataFrame pass through pandas, which must not touch them."""
    moment = datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)
    table = pa.table(
        {
            "k": ["ä", None, ""],
            "t": pa.array([1, 2, 40], pa.int64()),
            "flag": [True, None, False],
            "small": pa.array([1, None, -(2**31)], pa.int32()),
            "large": pa.array([2**62, None, -1], pa.int64()),
            "real": [0.1, None, float("nan")],
            "day": [date(1, 1, 1), None, date(9999, 12, 31)],
            "at": pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
            "exact": pa.array([Decimal("1.10"), None, Decimal("-99.99")], pa.decimal128(4, 2)),
            "raw": pa.array([b"\x00\xff", None, b""], pa.binary()),
        }
    )
    names = [name for name in table.column_names if name not in ("k", "t")]
    calls = ", ".join(f"first({name}) AS {name}" for name in names)
    sql = f"SELECT k, {calls} [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k"
    frame = over(spark, tmp_path / "in", table, streaming=True)
    more = spark.createDataFrame([], frame.schema)
    rows = asked(spark, frame, sql).dataframe()
    writer = rows.writeStream.format("memory").queryName("types").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    found = spark.table("types").toArrow()
    expected = asked(spark, over(spark, tmp_path / "in", table).union(more), sql).dataframe()
    assert rows.schema == expected.schema
    closed = expected.where("window_end <= 30").toArrow()
    assert closed.num_rows == 2
    assert bag(tuples(found)) == bag(tuples(closed))


def test_workers_with_the_packages_of_this_process(spark: SparkSession) -> None:
    context = spark.sparkContext
    before = (context.pythonExec, dict(context.environment))

    def where(batches: Any) -> Any:
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"at": [str(pyspark.__file__), sys.executable]})

    with installed_packages(spark):
        rows = spark.range(1).coalesce(1).mapInArrow(where, "at string")
    assert (context.pythonExec, dict(context.environment)) == before
    package, python = (row.at for row in rows.collect())
    assert ".zip" not in package
    assert python == sys.executable
