"""The whole answer of a query over bounded sources, as a Spark batch job."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import EngineError
from penstock.operators.batch import signed_record
from penstock.physical.plan import PhysicalPlan
from penstock.runs.answer import Answer, join_tables
from penstock.runs.final_rows import final_rows
from penstock.sources.rejects import RejectKind, RejectLog
from penstock.spark.run.job import Job
from penstock.spark.run.outcome import Collected, deliver, in_order
from penstock.spark.session.session import BUCKETS, PARTITIONS, setting
from penstock.spark.sources.feeds import batch_sources, streams_of
from penstock.spark.tasks.worker_errors import failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(
    plan: PhysicalPlan, spark: SparkSession, strict: bool = False, buckets: int = BUCKETS
) -> Answer:
    query = plan.query
    for name, stream in streams_of(query).items():
        frame = getattr(stream.source, "frame", None)
        if frame is not None and frame.isStreaming:
            raise EngineError(
                f"stream {name} is a streaming DataFrame: its answer never ends",
                hint="query.start(…), or query.dataframe()",
            )
    rejects = RejectLog(strict)
    collected = Collected(query)
    tally = deliver(packed_answer(plan, spark, strict, buckets), collected)
    rows = [signed_record(batch) for batch in collected.rows]
    table = pa.Table.from_batches(rows, rows[0].schema if rows else query.schema.arrow)
    if any(batch.signs is not None for batch in collected.rows):
        table = final_rows(table)
    if query.in_order:
        table = in_order(table, query.progress[0].field.qualified)
    unreadable = sum(each.kind is RejectKind.BAD_ROW for each in collected.rejects)
    for reject in collected.rejects:
        rejects.add(reject)
    delivered = tally.read - unreadable
    return Answer(table, join_tables(collected.late, query), rejects, delivered, tally.late)


def packed_answer(plan: PhysicalPlan, spark: SparkSession, strict: bool, buckets: int) -> pa.Table:
    """All that comes out of the job, packed."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
        sources = batch_sources(plan.query, spark, Path(directory), strict)
        try:
            with setting(spark, {PARTITIONS: str(buckets)}):
                return Job(plan, sources, buckets, strict).packed().toArrow()
        except Exception as error:
            raise failure(error) from error
