"""What DataFrames count: rows read, late, rejected and given, among the metrics of Spark."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock as ps
from tests.spark.streaming import files_stream, total, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("link", pa.string()), ("bytes", pa.int32()), ("ts", pa.int32())])
BATCHES = [
    [("a", 1, 1), ("b", 2, 3), ("a", 4, 22)],
    [("a", 8, 2), ("a", 16, None), ("b", 32, 31)],  # late, rejected
    [("b", 64, 50), ("b", 128, 9)],  # late
]
SUMS = "SELECT link, sum(bytes) AS bytes [RANGE 10, SLIDE 10, WA ts] FROM packets GROUP BY link"
COUNTS = {"read": 8, "late": 2, "rejected": 1, "rows": 4}
ROWS = [(0, 10, "a", 1), (0, 10, "b", 2), (20, 30, "a", 4), (30, 40, "b", 32)]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return files_stream(spark, tmp_path / "in", SCHEMA, BATCHES)


def asked(spark: SparkSession, frame: Any, sql: str = SUMS, **options: Any) -> ps.Query:
    db = ps.connect(spark, buckets=2)
    db.stream("packets", frame, progress=ps.progress("ts", delay=0), **options)
    found = db.sql(sql)
    assert isinstance(found, ps.Query)
    return found


def tuples(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


# --- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["", " LATE SIDE"])
def test_every_micro_batch_is_counted(
    spark: SparkSession, stream: DataFrame, tmp_path: Path, late: str
) -> None:
    frame = asked(spark, stream, SUMS + late).dataframe()
    found = written(frame, tmp_path / "checkpoint")
    assert frame.columns == ["window_start", "window_end", "link", "bytes"]
    assert tuples(found.rows) == ROWS
    assert total(found.metrics) == COUNTS
    first = found.metrics[0]["penstock"].asDict()
    assert first == {"read": 3, "late": 0, "rejected": 0, "rows": 2, "decisions": []}


def test_what_stages_before_have_counted(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    sql = f"SELECT count(*) AS n [RANGE 20, SLIDE 20, WA window_end] FROM ({SUMS}) AS sums"
    found = written(asked(spark, stream, sql).dataframe(), tmp_path / "checkpoint")
    assert total(found.metrics) == {**COUNTS, "rows": len(found.rows)}


def test_rows_without_state(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    sql = "SELECT link FROM packets WHERE bytes > 2"
    found = written(asked(spark, stream, sql).dataframe(), tmp_path / "checkpoint")
    assert len(found.rows) == 5
    assert total(found.metrics) == {"read": 8, "late": 0, "rejected": 1, "rows": 5}


def test_with_and_without_state_in_one_query(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    sql = f"SELECT link FROM packets UNION ALL SELECT link FROM ({SUMS}) AS sums"
    found = written(asked(spark, stream, sql).dataframe(), tmp_path / "checkpoint")
    assert len(found.rows) == 7 + 4
    assert total(found.metrics) == {"read": 8, "late": 2, "rejected": 1, "rows": 11}


def test_a_plan_of_catalyst_alone(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    """Filters stay in the scan, so nobody counts what is read."""
    frame = ps.sql("SELECT link FROM {packets} WHERE bytes > 2", packets=stream).dataframe()
    found = written(frame, tmp_path / "checkpoint")
    assert total(found.metrics) == {"late": 0, "rejected": 0, "rows": len(found.rows)}


def test_more_is_done_to_the_rows(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    frame = asked(spark, stream).dataframe()
    other = stream.where("ts IS NULL").select("link", "bytes")
    frame = frame.where("link = 'a'").select("link", "bytes").union(other)
    writer = frame.writeStream.format("memory").queryName("more").outputMode("append")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        assert total([each.observedMetrics for each in query.recentProgress]) == COUNTS
    finally:
        query.stop()
    assert sorted(map(tuple, spark.table("more").collect())) == [("a", 1), ("a", 4), ("a", 16)]


def test_several_queries_in_one_plan(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    first = asked(spark, stream).dataframe(metrics="sums")
    second = asked(spark, stream, SUMS.replace("sum", "max")).dataframe()
    found = written(first.union(second), tmp_path / "checkpoint")
    assert total(found.metrics, "sums") == COUNTS
    assert total(found.metrics) == COUNTS
    assert len(found.rows) == 8


def test_a_query_over_the_rows_of_another(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    sums = asked(spark, stream).dataframe()
    db = ps.connect(spark, buckets=2)
    db.stream("sums", sums, progress=ps.progress("window_end", delay=0))
    above = db.sql("SELECT sum(bytes) AS bytes [RANGE 20, SLIDE 20, WA window_end] FROM sums")
    assert isinstance(above, ps.Query)
    found = written(above.dataframe(), tmp_path / "checkpoint")
    assert total(found.metrics) == COUNTS
    assert total(found.metrics, "penstock_2")["read"] == COUNTS["rows"]


def test_an_observation_of_a_stream(spark: SparkSession, stream: DataFrame) -> None:
    from pyspark.sql import Observation

    with pytest.raises(ps.EngineError, match="an Observation is for a table"):
        asked(spark, stream).dataframe(metrics=Observation())


def test_a_listener_hears_of_rejected_rows(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    from pyspark.sql.streaming import StreamingQueryListener

    heard: queue.Queue[int] = queue.Queue()

    class Rejects(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802

        def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            counts = event.progress.observedMetrics.get("penstock")
            if counts is not None and counts.rejected:
                heard.put(counts.rejected)

        def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

    listener = Rejects()
    spark.streams.addListener(listener)
    try:
        written(asked(spark, stream).dataframe(), tmp_path / "checkpoint")
        assert heard.get(timeout=120) == 1
    finally:
        spark.streams.removeListener(listener)


# --- names that users may have -------------------------------------------------------------------


def test_columns_that_are_called_like_counts(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    columns = "link AS _Penstock_Read, sum(bytes) AS _penstock_late"
    sql = f"SELECT {columns} [RANGE 10, SLIDE 10, WA ts] FROM packets GROUP BY link"
    frame = asked(spark, stream, sql).dataframe()
    assert frame.columns == ["window_start", "window_end", "_Penstock_Read", "_penstock_late"]
    found = written(frame, tmp_path / "checkpoint")
    assert tuples(found.rows) == ROWS
    assert total(found.metrics) == COUNTS


# --- tables --------------------------------------------------------------------------------------


def test_a_table_with_an_observation(spark: SparkSession) -> None:
    from pyspark.sql import Observation

    rows = [row for batch in BATCHES for row in batch]
    counts = Observation()
    table = spark.createDataFrame(rows, "link string, bytes int, ts int")
    frame = asked(spark, table).dataframe(metrics=counts)
    assert len(frame.collect()) == 5
    assert counts.get == {"read": 8, "late": 0, "rejected": 1, "rows": 5}


def test_rows_in_memory_with_an_observation(spark: SparkSession) -> None:
    """Rows that do not fit are set aside before Spark sees them, and count all the same."""
    from pyspark.sql import Observation

    rows = [*(row for batch in BATCHES for row in batch), ("a", "many", 3)]
    counts = Observation()
    frame = asked(spark, rows, schema="link STRING, bytes INT, ts INT").dataframe(metrics=counts)
    found = sorted(map(tuple, frame.collect()))
    assert counts.get == {"read": 9, "late": 2, "rejected": 2, "rows": len(found)}


def test_a_plain_table_is_observed_if_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise filters of the user's are pushed into the scan."""
    from pyspark.sql import Observation

    spark.range(10).selectExpr("id AS n").write.parquet(str(tmp_path / "in"))
    query = ps.sql("SELECT n FROM {s} WHERE n > 2", s=spark.read.parquet(str(tmp_path / "in")))
    plan = query.dataframe().where("n < 5")._jdf.queryExecution().executedPlan().toString()
    assert "LessThan(n,5)" in plan
    counts = Observation()
    assert query.dataframe(metrics=counts).count() == 7
    assert counts.get == {"late": 0, "rejected": 0, "rows": 7}


def test_what_is_read_has_rows_that_could_not_be_read(spark: SparkSession, tmp_path: Path) -> None:
    """For a started query, too."""
    (tmp_path / "in.csv").write_text("k,t\na,1\na,x\na,5\n,\n")
    db = ps.connect(spark, buckets=2)
    files = f"FROM FILES '{tmp_path / 'in.csv'}' PROGRESS ON t DELAY 0"
    db.sql(f"CREATE STREAM s (k STRING, t INT) {files}")
    for sql in ("SELECT k FROM s", "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"):
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        account = query.start(lambda _: None).wait()
        assert (account.read, account.rejected) == (4, 2)
        assert query.account == account
