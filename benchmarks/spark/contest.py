"""One query twice, by Penstock and by Spark's own operators, over the same micro-batches.

Both get the RocksDB state store, the same files, one per micro-batch, and as many partitions.  Both
run once before anything is measured, which is where their rows are compared; after that they take
turns, and each is judged by its best run.  The time of a run is that of its micro-batches
(`triggerExecution`): starting and stopping a query is measured apart.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from time import monotonic

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from benchmarks.measuring import agree
from benchmarks.workloads import Workload
from penstock.spark.session.session import session

PENSTOCK, SPARK = "Penstock", "Spark"
CORES = 2
QUICK = 20_000  # events, which are 10 seconds: some windows have to close
COLUMNS = "k bigint, len bigint, ts timestamp"
_ROW_GROUP = 1 << 16  # so that both can read one file with all cores
_FIRST = 1_700_000_000  # Spark reads files by their time; any will do


@cache
def spark_session() -> SparkSession:
    conf = {
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.driver.memory": "4g",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        # rows are narrow: no need to look at the size of a batch after each of them
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    }
    return session(f"local[{CORES}]", conf)


@contextmanager
def files(events: pa.Table, cuts: int, row_group: int = _ROW_GROUP) -> Iterator[Path]:
    """A directory with the events in so many files, each of them a micro-batch."""
    with TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        write(events, cuts, folder, row_group)
        yield folder


def write(events: pa.Table, cuts: int, folder: Path, row_group: int = _ROW_GROUP) -> None:
    rows = -(-events.num_rows // cuts)
    for number in range(cuts):
        path = folder / f"{number:04}.parquet"
        pq.write_table(events.slice(number * rows, rows), path, row_group_size=row_group)
        os.utime(path, (_FIRST + number, _FIRST + number))


def source(folder: Path) -> DataFrame:
    reader = spark_session().readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def penstock_query(sql: str, folder: Path) -> ps.Query:
    db = ps.connect(spark_session(), buckets=CORES)
    db.stream("events", source(folder), progress=ps.progress("ts", delay="5 seconds"))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def penstock_frame(workload: Workload, folder: Path) -> DataFrame:
    return penstock_query(workload.sql, folder).dataframe()


def native_frame(workload: Workload, folder: Path) -> DataFrame:
    window = F.window("ts", f"{workload.range} seconds", f"{workload.slide} seconds")
    calls = [F.expr(call) for call in workload.calls.split(", ")]
    grouped = source(folder).withWatermark("ts", "5 seconds").groupBy(window, "k").agg(*calls)
    names = [name for name in grouped.columns if name not in ("window", "k")]
    ends = [F.col("window.start"), F.col("window.end")]
    return grouped.select(*ends, "k", *names).toDF("window_start", "window_end", "k", *names)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`batches` are the times of the micro-batches in seconds."""

    batches: list[float]
    state_bytes: int
    until_first: float  # seconds from asking for the query to the end of its first micro-batch
    rows: pa.Table | None = None

    @property
    def seconds(self) -> float:
        return sum(self.batches)


def run(make: Callable[[], DataFrame], mode: str = "append", keep_rows: bool = False) -> Outcome:
    """A query from beginning to end; its rows go nowhere, or are kept."""
    checkpoint = Path(mkdtemp(prefix="penstock-bench-"))
    try:
        begin = monotonic()
        frame = make()
        writer = frame.writeStream.outputMode(mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer = writer.format("memory" if keep_rows else "noop").queryName("measured")
        query = writer.start()
        while not query.recentProgress:
            query.awaitTermination(0.01)
        until_first = monotonic() - begin
        query.awaitTermination()
        batches = [each.durationMs["triggerExecution"] / 1000 for each in query.recentProgress]
        spark = spark_session()
        rows = spark.table("measured").toArrow() if keep_rows else None
        if keep_rows:
            spark.catalog.dropTempView("measured")
        return Outcome(batches, _size(checkpoint / "state"), until_first, rows)
    finally:
        shutil.rmtree(checkpoint)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True, slots=True)
class Contest:
    """The best runs of both, and how many rows they agreed on."""

    penstock: Outcome
    spark: Outcome
    agreed: dict[str, int]

    @property
    def ratio(self) -> float:
        """Penstock's time in terms of Spark's."""
        return self.penstock.seconds / self.spark.seconds

    @property
    def speedup(self) -> float:
        return 1 / self.ratio

    @property
    def state_ratio(self) -> float:
        return self.penstock.state_bytes / self.spark.state_bytes


def contest(workload: Workload, events: pa.Table, cuts: int, rounds: int) -> Contest:
    with files(events, cuts) as folder:
        makes: dict[str, Callable[[], DataFrame]] = {
            PENSTOCK: lambda: penstock_frame(workload, folder),
            SPARK: lambda: native_frame(workload, folder),
        }
        answers = {name: run(make, keep_rows=True).rows for name, make in makes.items()}
        agreed = agree(closed(answers))
        best: dict[str, Outcome] = {}
        for _ in range(rounds):
            for name, make in makes.items():
                made = run(make)
                if name not in best or made.seconds < best[name].seconds:
                    best[name] = made
    return Contest(best[PENSTOCK], best[SPARK], agreed)


def closed(answers: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows of the windows that all have closed: without more input the last ones stay open."""
    end = min(pc.max(rows.column("window_end")).as_py() for rows in answers.values())
    schema = answers[SPARK].schema
    return {
        name: rows.filter(pc.less_equal(rows.column("window_end"), end)).cast(schema)
        for name, rows in answers.items()
    }
