"""Streaming DataFrames change their plans while somebody writes them: the state says what was
decided, so a writer that begins anew goes on, and the metrics say why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps
from penstock.model.clock import ManualClock
from penstock.reference.engine import answer as definition
from penstock.spark.run.query_frames import dataframe
from tests.local.test_adapting import EAGER
from tests.planning import on_spark
from tests.reference.helpers import bag, tuples
from tests.spark.streaming import Written, add_file, files_stream, total, written
from tests.spark.test_adapting_windows import SUMS, tuples_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def asked(rows: DataFrame | pa.Table, spark: SparkSession) -> ps.Query:
    db = ps.connect(spark, buckets=1)
    db.stream("s", rows, progress=ps.progress("t", delay=3))
    found = db.sql(f"{SUMS} LATE SIDE")
    assert isinstance(found, ps.Query)
    return found


def test_a_writer_goes_on_with_what_was_decided(spark: SparkSession, tmp_path: Path) -> None:
    table = tuples_of(few=200, many=0)
    batches = [table.slice(at, 50) for at in range(0, table.num_rows, 50)]
    given = [[tuple(row.values()) for row in each.to_pylist()] for each in batches]
    stream = files_stream(spark, tmp_path / "in", table.schema, given[:3])

    def write() -> Written:
        plan = on_spark(asked(stream, spark).plan)
        frame = dataframe(plan, spark, False, 1, adaptation=EAGER)
        assert frame.columns[-2:] == ["n", "m"]
        return written(frame, tmp_path / "checkpoint")

    first = write()
    told = [each for metrics in first.metrics for each in metrics["penstock"].decisions]
    assert len(told) == 1
    assert told[0].startswith("WindowAggregate of s, stage 1, bucket 0, after ")
    assert "PANED -> BUFFERING" in told[0]
    add_file(tmp_path / "in", len(given) - 1, table.schema, given[-1])
    second = write()
    assert not any(metrics["penstock"].decisions for metrics in second.metrics)
    assert total(second.metrics)["rows"] == len(second.rows)
    rows = [tuple(row.values()) for row in first.rows + second.rows]
    promised = pc.max(table.column("t")).as_py() - 3
    expected = tuples(definition(asked(table, spark).plan, ManualClock()).table)
    assert bag(rows) == bag(row for row in expected if row[1] <= promised)


def test_plans_that_cannot_change_say_nothing(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.int64())])
    stream = files_stream(spark, tmp_path / "in", schema, [[(1, 2, 3)], [(1, 2, 30)]])
    db = ps.connect(spark, buckets=1)
    db.stream("s", stream, progress=ps.progress("t", delay=3))
    query = db.sql(f"{SUMS.replace('SELECT', 'SELECT /*+ PANED */')}")
    assert isinstance(query, ps.Query)
    found = written(query.dataframe(), tmp_path / "checkpoint")
    assert found.rows
    assert all("decisions" not in metrics["penstock"].asDict() for metrics in found.metrics)
