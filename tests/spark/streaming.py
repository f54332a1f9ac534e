"""Streaming DataFrames over files, one file to a micro-batch, and what comes of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def files_stream(
    spark: SparkSession, folder: Path, schema: pa.Schema, batches: list[list[tuple[Any, ...]]]
) -> DataFrame:
    """A stream that reads each of the batches in a micro-batch of its own."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(batches):
        add_file(folder, number, schema, rows)
    columns = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def add_file(folder: Path, number: int, schema: pa.Schema, rows: list[tuple[Any, ...]]) -> None:
    path = folder / f"{number}.parquet"
    hidden = folder / f".{path.name}"
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), hidden)
    os.utime(hidden, (1e9 + number, 1e9 + number))
    hidden.replace(path)


class Written(NamedTuple):
    rows: list[dict[str, Any]]
    metrics: list[dict[str, Any]]  # of every micro-batch


def written(frame: DataFrame, checkpoint: Path) -> Written:
    """All that a stream gives for what is there."""
    rows: list[dict[str, Any]] = []
    writer = frame.writeStream.trigger(availableNow=True)
    writer = writer.foreachBatch(
        lambda batch, _: rows.extend(row.asDict() for row in batch.collect())
    )
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return Written(rows, [each.observedMetrics for each in query.recentProgress])


def total(metrics: list[dict[str, Any]], name: str = "penstock") -> dict[str, int]:
    """The sums over all micro-batches of what is counted."""
    found = [each[name].asDict() for each in metrics if name in each]
    return {key: sum(each[key] for each in found) for key in found[0] if key != "decisions"}
