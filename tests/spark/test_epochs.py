"""Times that come as numbers, on Spark: from DataFrames, rows and files, in batches and streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from tests.api.test_epochs import MILLIS, MOMENTS, files
from tests.reference.helpers import bag, tuples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARED = "ts TIMESTAMP EPOCH MILLISECONDS"


@pytest.mark.parametrize("streaming", [False, True])
def test_dataframes(spark: SparkSession, tmp_path: Path, streaming: bool) -> None:
    folder = tmp_path / "numbers"
    folder.mkdir()
    pq.write_table(pa.table({"k": ["a", "b", "a"], "ts": MILLIS}), folder / "0.parquet")
    frame = spark.read.parquet(str(folder))
    given = spark.readStream.schema(frame.schema).parquet(str(folder)) if streaming else frame
    for options in ({"schema": f"k STRING, {DECLARED}"}, {"epoch": {"ts": "ms"}}):
        db = ps.connect(spark)
        db.stream("s", given, progress=ps.progress("ts", ordered=True), **options)
        windows = (
            "SELECT k, count(*) AS n [RANGE 1 SECOND, SLIDE 1 SECOND, WA ts] FROM s GROUP BY k"
        )
        out = tmp_path / f"{len(options)}{'schema' in options}.jsonl"
        db.sql(windows).run(out, final=True)
        rows = map(json.loads, out.read_text().splitlines())
        assert sorted((row["k"], row["n"], row["window_end"][17:19]) for row in rows) == [
            ("a", 1, "01"),
            ("b", 1, "02"),
        ]
    if not streaming:
        local = ps.connect()
        local.stream("s", frame, epoch={"ts": "ms"})
        assert local.sql("SELECT ts FROM s").collect().column("ts").to_pylist() == MOMENTS


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl", "s.parquet"])
def test_files(spark: SparkSession, tmp_path: Path, name: str) -> None:
    files(tmp_path)
    db = ps.connect(spark, base=tmp_path)
    db.sql(f"CREATE STREAM s ({DECLARED}) FROM FILES '{name}'")
    found = db.sql("SELECT ts FROM s WHERE ts IS NOT NULL").collect()
    assert bag(tuples(found)) == bag([(each,) for each in micros()])


def micros() -> list[int]:
    return [each * 1000 for each in MILLIS if each is not None]
