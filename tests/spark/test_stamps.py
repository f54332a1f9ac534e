"""Stamps of the clock on Spark: in order across tasks, micro-batches and runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock as ps
from tests.spark.streaming import add_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AHEAD = 3_600_000_000  # microseconds
SCHEMA = pa.schema([("n", pa.int32())])


def run(spark: SparkSession, folder: Path, kind: str, sql: str, final: bool = False) -> Any:
    db = ps.connect(spark, buckets=2, base=folder)
    db.sql(f"CREATE STREAM s (n INT, ts TIMESTAMP) FROM FILES '*.jsonl' PROGRESS ON ts {kind}")
    query: Any = db.sql(sql)
    found: list[pa.RecordBatch] = []
    account = query.run(found.append, checkpoint=folder / "kept", final=final)
    return account, pa.Table.from_batches(found) if found else None


@pytest.mark.parametrize("kind", ["INTERNAL", pytest.param("LATENT", marks=pytest.mark.slow)])
def test_a_clock_that_was_set_back_between_runs(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """As if the clock had been an hour ahead: what was stamped last is known, and moved."""
    sql = "SELECT max(ts) AS last, min(ts) AS first [RANGE 10 ROWS, SLIDE 10 ROWS] FROM s"
    (tmp_path / "1.jsonl").write_text('{"n": 1}\n' * 10)
    _, first = run(spark, tmp_path, kind, sql)
    (kept,) = (tmp_path / "kept").rglob("stamped")
    last = int(kept.read_text())
    assert last == first.column("last").cast(pa.int64()).to_pylist()[0]
    kept.write_text(str(last + AHEAD))
    (tmp_path / "2.jsonl").write_text('{"n": 1}\n' * 10)
    account, again = run(spark, tmp_path, kind, sql)
    assert account == ps.Account(10, 0, 0)
    assert again.column("first").cast(pa.int64()).to_pylist() == [last + AHEAD]
    assert last + AHEAD > time.time_ns() // 1000


def test_tasks_are_not_late_for_each_other(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        add_file(folder, number, SCHEMA, [(n,) for n in range(2000)])
    columns = spark.read.parquet(str(folder)).schema
    given = (
        spark.readStream.schema(columns)
        .option("maxFilesPerTrigger", 4)
        .parquet(str(folder))
        .repartition(4)
    )
    db = ps.connect(spark, buckets=2)
    db.stream(
        "s", given, schema="n INT, ts TIMESTAMP", progress=ps.progress("ts", timestamps="INTERNAL")
    )
    query: Any = db.sql(
        "SELECT count(*) AS n [RANGE 1 MILLISECOND, SLIDE 1 MILLISECOND, WA ts] FROM s"
    )
    found: list[pa.RecordBatch] = []
    assert query.run(found.append) == ps.Account(8000, 0, 0)
    assert sum(n for batch in found for n in batch.column("n").to_pylist()) == 8000
