"""The whole answer of a query over bounded sources, as a Spark batch job."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import EngineError
from penstock.physical.plan import PhysicalPlan
from penstock.runs.answer import Answer
from penstock.runs.gathered import Gathered
from penstock.sources.rejects import Reject, RejectKind
from penstock.spark.run.delivering import deliver
from penstock.spark.run.job import Job
from penstock.spark.session.session import BUCKETS, PARTITIONS, setting
from penstock.spark.sources.feeds import batch_sources, streams_of
from penstock.spark.sources.tables import TableFiles
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
    gathered = Gathered(query)
    packed, (of_tables,) = packed_answer([plan], spark, strict, buckets)
    tally = deliver(packed, gathered, rejects=of_tables)
    unreadable = gathered.log.count(RejectKind.BAD_ROW)
    return gathered.answer(tally.read - unreadable, tally.late)


def packed_answer(
    plans: Sequence[PhysicalPlan], spark: SparkSession, strict: bool, buckets: int
) -> tuple[pa.Table, list[list[Reject]]]:
    """All that comes out of the job, packed, and for every plan the rows of tables that could not
    take part."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
        place, queries = Path(directory), [plan.query for plan in plans]
        sources = batch_sources(queries, spark, place, strict)
        tables = [TableFiles(query, spark, place, strict, buckets) for query in queries]
        job = Job(plans, sources, buckets, strict, tables=tables)
        try:
            with setting(spark, {PARTITIONS: str(buckets)}):
                return job.packed().toArrow(), [each.rejects for each in tables]
        except Exception as error:
            raise failure(error) from error
