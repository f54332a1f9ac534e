"""A query as ordinary DataFrames, streaming if one of its sources is, to be written anywhere: its
rows, its late tuples, and its rejected rows."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import uuid
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import EngineError
from penstock.io.sources.rejects import Reject
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from penstock.runs.run_options import Adaptation
from penstock.spark.run.job import Job
from penstock.spark.run.observed_counts import ObservedBy, free_name
from penstock.spark.session.session import PARTITIONS, PROVIDER, ROCKSDB
from penstock.spark.sources.available_now import stop_when_read
from penstock.spark.sources.dataframe import DataFrameSource, Sources
from penstock.spark.sources.stream_inputs import batch_sources, given_frame, streams_of
from penstock.spark.sources.tables import TableFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LOG = logging.getLogger("penstock")
_SHOWN = 5  # rejects that are logged


class Wanted(Enum):
    """Kind of the rows of a query that a DataFrame has."""

    ROWS = "rows"
    LATE = "late"
    REJECTED = "rejected"


def dataframe(
    plan: PhysicalPlan,
    spark: SparkSession,
    strict: bool,
    buckets: int,
    wanted: Wanted = Wanted.ROWS,
    metrics: ObservedBy | None = None,
    adaptation: Adaptation | None = None,
) -> DataFrame:
    """Make the DataFrame of a query.  `metrics` is the name of the counts, or an Observation that
    gets them; `adaptation` is when operators are exchanged while a streaming query runs."""
    # read whenever an action runs, so it is kept as long as the process
    directory = Path(tempfile.gettempdir()) / f"penstock-{uuid.uuid4().hex}"
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    sources = _sources(plan.query, spark, strict, buckets, wanted, directory)
    tables = TableFiles(plan.query, spark, directory, strict, buckets)
    adapting = adaptation if wanted is Wanted.ROWS else None  # decisions come with rows only
    job = Job([plan], sources, buckets, strict, tables=[tables], adaptation=adapting)
    _log_rejects(tables.rejects)
    name = metrics if metrics is not None else free_name(job.frames)
    if isinstance(name, str) and job.streaming and job.looks_at_clock:
        stop_when_read(spark, name)
    match wanted:
        case Wanted.ROWS:
            # a table is not observed unless metrics are asked for: later operations could not be
            # pushed into its scan
            unasked = metrics is None and not job.streaming
            plain = job.plain_rows(None if unasked else name)
            if plain is not None:
                return plain
            rows = job.rows()
        case Wanted.LATE:
            rows = job.late_rows()
        case Wanted.REJECTED:
            rows = job.rejected_rows(tables.rejects)
    return rows.observed(name)


def _log_rejects(rejects: Sequence[Reject]) -> None:
    """Log the rejected rows of tables: a streaming DataFrame has no place for them."""
    if rejects:
        lines = [f"{len(rejects):,} rows of tables were rejected:"]
        lines += [f"  {reject}" for reject in rejects[:_SHOWN]]
        lines += [f"  … and {len(rejects) - _SHOWN:,} more"] if len(rejects) > _SHOWN else []
        _LOG.warning("%s", "\n".join(lines))


def _sources(
    query: QueryPlan,
    spark: SparkSession,
    strict: bool,
    buckets: int,
    wanted: Wanted,
    directory: Path,
) -> Sources:
    streams = streams_of(query)
    frames = {
        name: stream.source.frame
        for name, stream in streams.items()
        if isinstance(stream.source, DataFrameSource)
    }
    if not any(frame.isStreaming for frame in frames.values()):
        return batch_sources([query], spark, directory, strict)
    if len(frames) < len(streams):
        others = sorted(streams.keys() - frames.keys())
        raise EngineError(
            f"{', '.join(others)}: only DataFrames can be read beside streaming DataFrames",
            hint="query.start(…) reads both",
        )
    if wanted is not Wanted.REJECTED:  # which has no state
        configure_state(spark, buckets)
    return Sources({name: [given_frame(streams[name])] for name in frames}, {})


def configure_state(spark: SparkSession, buckets: int) -> None:
    """Configure a session for stateful steps, which need RocksDB and few partitions, where the user
    has not chosen.  Existing checkpoints keep what they were made with."""
    chosen = spark.conf.get(PROVIDER, None)
    if chosen is None:
        spark.conf.set(PROVIDER, ROCKSDB)
    elif chosen != ROCKSDB:
        raise EngineError(
            f"the session keeps state with {chosen}",
            expected="the RocksDB state store",
            hint=f'spark.conf.set("{PROVIDER}", "{ROCKSDB}")',
        )
    here = str(spark.sparkContext.master).startswith("local")
    if here and spark.conf.get(PARTITIONS, None) is None:  # 200, each with a Python worker
        spark.conf.set(PARTITIONS, str(buckets))
