"""A query as an ordinary DataFrame, streaming if one of its sources is, to be written anywhere."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import EngineError
from penstock.plan.query import Query
from penstock.spark.job import Frame, Job, Sources
from penstock.spark.session import PARTITIONS, PROVIDER, ROCKSDB
from penstock.spark.source import DataFrameSource
from penstock.spark.sources import batch_sources, streams_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def dataframe(query: Query, spark: SparkSession, strict: bool, buckets: int) -> DataFrame:
    streams = streams_of(query)
    frames = {
        name: stream.source.frame
        for name, stream in streams.items()
        if isinstance(stream.source, DataFrameSource)
    }
    if any(frame.isStreaming for frame in frames.values()):
        if len(frames) < len(streams):
            others = sorted(streams.keys() - frames.keys())
            raise EngineError(
                f"{', '.join(others)}: only DataFrames can be read beside streaming DataFrames",
                hint="query.start(…) reads both",
            )
        make_fit(spark, buckets)
        sources = Sources({name: [Frame(frame)] for name, frame in frames.items()}, {})
    else:
        directory = Path(tempfile.mkdtemp(prefix="penstock-"))  # read whenever somebody asks
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        sources = batch_sources(query, spark, directory, strict)
    job = Job(query, sources, buckets, strict)
    plain = job.plain_rows()
    return plain if plain is not None else job.rows()


def make_fit(spark: SparkSession, buckets: int) -> None:
    """Stateful steps need RocksDB, and a few partitions: a session that has not chosen gets them.
    Checkpoints that are there already keep what they were made with."""
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
