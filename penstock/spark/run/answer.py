"""The whole answer of a query over bounded sources, as a Spark batch job."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from penstock.errors import EngineError
from penstock.physical.plan import PhysicalPlan
from penstock.plan.nodes.query import QueryPlan
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
    refuse_streaming(plan.query, "its answer never ends")
    gathered = Gathered(plan.query)
    ran = run_job([plan], spark, strict, buckets)
    tally = deliver(ran.packed, gathered, rejects=ran.rejects[0])
    unreadable = gathered.log.count(RejectKind.BAD_ROW)
    return gathered.answer(tally.read - unreadable, tally.late)


def refuse_streaming(query: QueryPlan, why: str) -> None:
    for name, stream in streams_of(query).items():
        frame = getattr(stream.source, "frame", None)
        if frame is not None and frame.isStreaming:
            raise EngineError(
                f"stream {name} is a streaming DataFrame: {why}",
                hint="query.start(…), or query.dataframe()",
            )


class RunJob(NamedTuple):
    """A batch job that was run: all that came out, packed, and for every plan the rows of tables
    that could not take part."""

    job: Job
    packed: pa.Table
    rejects: list[list[Reject]]


def run_job(
    plans: Sequence[PhysicalPlan],
    spark: SparkSession,
    strict: bool,
    buckets: int,
    analyzed: bool = False,
) -> RunJob:
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
        place, queries = Path(directory), [plan.query for plan in plans]
        sources = batch_sources(queries, spark, place, strict)
        tables = [TableFiles(query, spark, place, strict, buckets) for query in queries]
        job = Job(plans, sources, buckets, strict, tables=tables, analyzed=analyzed)
        try:
            with setting(spark, {PARTITIONS: str(buckets)}):
                packed = job.packed().toArrow()
        except Exception as error:
            raise failure(error) from error
        return RunJob(job, packed, [each.rejects for each in tables])
