"""Benchmarks on Spark: Penstock and Spark's own windows answer alike, at tiny sizes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.spark.catalogue import BENCHMARKS
from benchmarks.spark.contest import PENSTOCK, SPARK, closed, write
from benchmarks.spark.groups import spread
from benchmarks.spark.small_batches import apart
from benchmarks.workloads import events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick_mode_runs_and_contenders_agree(
    name: str, tmp_path: Path, spark: SparkSession
) -> None:
    result = BENCHMARKS[name](True)
    assert result.name == name
    assert len(result.agreed) >= 2
    assert all(result.agreed.values())  # an empty answer agrees with anything empty
    assert len({tuple(row) for row in result.rows}) == 1  # the same columns
    result.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.csv", f"{name}.png"}


def _answer(*seconds: int) -> pa.Table:
    ends = [datetime.fromtimestamp(second, UTC) for second in seconds]
    return pa.table({"window_end": pa.array(ends, pa.timestamp("us", "UTC")), "n": list(seconds)})


def test_windows_that_one_has_not_closed_are_left_out() -> None:
    answers = closed({PENSTOCK: _answer(10, 20, 30), SPARK: _answer(20, 10)})
    assert {name: rows.column("n").to_pylist() for name, rows in answers.items()} == {
        PENSTOCK: [10, 20],
        SPARK: [20, 10],
    }


def test_files_hold_all_events_in_order(tmp_path: Path) -> None:
    table = events(1_000)
    write(table, 3, tmp_path)
    paths = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime)
    read = pa.concat_tables([pq.read_table(path) for path in paths])
    assert len(paths) == 3
    assert read.equals(table)


def test_more_groups_of_the_same_events() -> None:
    table = events(20_000)
    wide = spread(table, 100_000)
    assert len(set(wide.column("k").to_pylist())) > 10 * len(set(table.column("k").to_pylist()))
    assert [key // 100 for key in wide.column("k").to_pylist()] == table.column("k").to_pylist()


def test_small_batches_close_windows() -> None:
    stamps = apart(events(3_000)).column("ts").cast(pa.int64()).to_numpy() / 1e6
    assert stamps[2_000:].min() > stamps[:1_000].max() + 5
