"""Every query of Nexmark on Spark, streaming in one micro-batch, beside Spark's own formulation.

That is streaming as well where Spark has such a query: the same text, or one of its own that is in
`spark/`.  Running joins below aggregates, OVER and count(DISTINCT …) it has in batch jobs only, and
then those are what is compared with: they keep no state and write no checkpoint.

Processor times are those of the whole run: of this process, of Spark, and of the Python workers.

Rows are compared over fewer events, with DuckDB's and with those of Spark's text as a batch job.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import penstock as ps
from benchmarks.nexmark.generator import Events, generated
from benchmarks.nexmark.running import (
    FOLDER,
    NAMES,
    SIDE_INPUT,
    database,
    expected,
    plain,
    text_of,
)
from benchmarks.result import Result, Row
from benchmarks.spark.comparing import bar_plot
from benchmarks.spark.contest import CORES, spark_session
from benchmarks.spark.contest import run as run_streaming
from benchmarks.spark.shared_queries import processor_seconds

DISORDER = 2.0  # seconds
CHECKED = 10_000  # events over which rows are compared, and with which workers warm up
ONLY_IN_BATCHES = ("q4", "q6", "q15", "q16", "q19")
CHANGING = ("q17", "q18")  # aggregates without a window, in update mode
_ROW_GROUP = 1 << 16


def run(quick: bool = False) -> Result:
    count, checked = (2_000, 1_000) if quick else (1_000_000, CHECKED)
    return measured(count, checked, ("q2", "q5", "q12") if quick else NAMES)


def measured(count: int, checked: int, names: tuple[str, ...] | list[str]) -> Result:
    few, many = (generated(size, disorder=DISORDER) for size in (checked, count))
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    with _files(few) as small, _files(many) as folder:
        for name in names:
            agreed[name] = _checked(name, few, small)
            run_streaming(partial(_ours, name, small))  # workers import what they need
            native(name, small)
            before = processor_seconds()
            penstock = run_streaming(partial(_ours, name, folder))
            between = processor_seconds()
            spark = native(name, folder)
            after = processor_seconds()
            rows.append(
                {
                    "query": name,
                    "Penstock s": penstock.seconds,
                    "Spark s": spark,
                    "Penstock processor s": between - before,
                    "Spark processor s": after - between,
                    "Spark's is": "a batch job" if name in ONLY_IN_BATCHES else "streaming",
                    "times faster": spark / penstock.seconds,
                    "Penstock events/s": count / penstock.seconds,
                }
            )
            print(f"{name}: {penstock.seconds:.1f} s, Spark {spark:.1f} s", file=sys.stderr)
    title = f"Nexmark on Spark, {count:,} events up to {DISORDER} s out of order, one micro-batch"
    plot = partial(bar_plot, "Nexmark on Spark", rows)
    return Result("spark_nexmark", title, rows, agreed, [], plot)


def _checked(name: str, events: Events, folder: Path) -> int:
    """How many rows Penstock on Spark, DuckDB and Spark itself agree on."""
    query = database(ps.connect(spark_session(), buckets=CORES), events, DISORDER).sql(
        text_of(name)
    )
    assert isinstance(query, ps.Query)
    found = query.collect()
    right = plain(found)
    if right != plain(expected(name, events)):
        raise AssertionError(f"{name}: Penstock on Spark and DuckDB answer differently")
    if right != plain(_own_query(name, folder, streaming=False).toArrow()):
        raise AssertionError(f"{name}: Penstock on Spark and Spark answer differently")
    return found.num_rows


@contextmanager
def _files(events: Events) -> Iterator[Path]:
    with TemporaryDirectory(prefix="penstock-bench-") as name:
        for table_name, table in events._asdict().items():
            place = Path(name) / table_name
            place.mkdir()
            pq.write_table(table, place / "0.parquet", row_group_size=_ROW_GROUP)
        yield Path(name)


def _ours(name: str, folder: Path) -> DataFrame:
    db = ps.connect(spark_session(), buckets=CORES)
    empty = generated(0)
    query = database(db, empty, DISORDER, partial(_streaming, folder)).sql(text_of(name))
    assert isinstance(query, ps.Query)
    return query.dataframe()


def _streaming(folder: Path, name: str, table: pa.Table) -> DataFrame:  # noqa: ARG001
    spark = spark_session()
    place = str(folder / name)
    return spark.readStream.schema(spark.read.parquet(place).schema).parquet(place)


def native(name: str, folder: Path) -> float:
    """Seconds that Spark's own query takes."""
    if name in ONLY_IN_BATCHES:
        return _written(_own_query(name, folder, streaming=False))
    mode = "update" if name in CHANGING else "append"
    return run_streaming(lambda: _own_query(name, folder, streaming=True), mode).seconds


def _own_query(name: str, folder: Path, streaming: bool) -> DataFrame:
    spark = spark_session()
    spark.createDataFrame(pa.Table.from_pylist(SIDE_INPUT)).createOrReplaceTempView("side_input")
    for stream in Events._fields:
        place = str(folder / stream)
        frame = spark.read.parquet(place)
        if streaming:
            frame = spark.readStream.schema(frame.schema).parquet(place)
            frame = frame.withWatermark("date_time", f"{DISORDER} seconds")
        frame.createOrReplaceTempView(stream)
    own = FOLDER / "spark" / f"{name}.sql"
    text = own.read_text(encoding="utf-8") if own.exists() else text_of(name)
    return spark.sql(text.replace("EMIT CHANGES", ""))


def _written(frame: DataFrame) -> float:
    begin = monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return monotonic() - begin
