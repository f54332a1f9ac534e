"""The same packets again, in the same micro-batches, by Penstock and by Spark's own window()."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps
from penstock.cli.demo.recording import Recording
from penstock.errors import RunError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CUTS = 3
_ORDER = [("window_end", "ascending"), ("srcIP", "ascending")]


def compare(spark: SparkSession, recording: Recording, queries: str) -> str:
    db = ps.connect(spark, buckets=2)
    packets = recording.again(spark, _CUTS)
    db.stream("packets", packets, progress=ps.progress("ts", delay="5 seconds", per="link"))
    list(db.script(queries))
    frames = {"penstock": db.query("talkers").dataframe(), "spark": _native(packets)}
    times: dict[str, float] = {}
    answers: dict[str, pa.Table] = {}
    for _ in range(2):  # whoever is first pays for what is not there yet, so both run twice
        for name, frame in frames.items():
            taken, answers[name] = _run(frame, name)
            times[name] = min(taken, times.get(name, taken))
    ours, theirs = _closed(answers)
    if not ours.equals(theirs):
        raise RunError(
            f"Spark's own window() answers differently: {theirs.num_rows:,} rows, and"
            f" {ours.num_rows:,} by Penstock"
        )
    ratio = times["spark"] / times["penstock"]
    return (
        f"Spark's own window() gives the same {theirs.num_rows:,} rows for the windows that it"
        f" closes. Its micro-batches took {times['spark']:.1f} s, Penstock's"
        f" {times['penstock']:.1f} s: {ratio:.1f} times as fast."
    )


def _native(packets: DataFrame) -> DataFrame:
    """One watermark for all links, so it has to wait for the slowest one."""
    from pyspark.sql import functions as F  # noqa: N812

    window = F.window("ts", "60 seconds", "2 seconds")
    grouped = packets.withWatermark("ts", "20 seconds").groupBy(window, "srcIP")
    counted = grouped.agg(F.count("*").alias("packets"), F.sum("len").alias("bytes"))
    return counted.select("window.start", "window.end", "srcIP", "packets", "bytes").toDF(
        "window_start", "window_end", "srcIP", "packets", "bytes"
    )


def _run(frame: DataFrame, name: str) -> tuple[float, pa.Table]:
    """Seconds of all micro-batches, and the rows."""
    with TemporaryDirectory(prefix="penstock-demo-") as checkpoint:
        writer = frame.writeStream.format("memory").queryName(name).outputMode("append")
        writer = writer.option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    taken = sum(each.durationMs["triggerExecution"] for each in query.recentProgress)
    rows = frame.sparkSession.table(name).toArrow()
    frame.sparkSession.catalog.dropTempView(name)
    return taken / 1000, rows


def _closed(answers: dict[str, pa.Table]) -> list[pa.Table]:
    """The rows of the windows that both have closed, in order."""
    end = min(pc.max(rows.column("window_end")).as_py() for rows in answers.values())
    schema = answers["spark"].schema
    return [
        rows.filter(pc.less_equal(rows.column("window_end"), end)).cast(schema).sort_by(_ORDER)
        for rows in answers.values()
    ]
