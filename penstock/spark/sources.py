"""What Spark reads for each stream of a query: a DataFrame that was given, or a feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.plan.query import Query
from penstock.plan.stateless import Scan
from penstock.plan.streams import StreamDefinition
from penstock.sources.rejects import RejectLog
from penstock.spark.feed import Feed, fill
from penstock.spark.job import Frame, Sources
from penstock.spark.source import DataFrameSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def streams_of(query: Query) -> dict[str, StreamDefinition]:
    return {node.stream.name: node.stream for node in query.walk() if isinstance(node, Scan)}


def batch_sources(
    query: Query, spark: SparkSession, directory: Path, rejects: RejectLog
) -> Sources:
    """All that there is, in one go."""
    parts = parts_of(query)
    sources = Sources({}, {})
    for name, stream in streams_of(query).items():
        if isinstance(stream.source, DataFrameSource):
            sources.frames[name] = [Frame(stream.source.frame)]
        else:
            feed = Feed(directory / name)
            fill(feed, stream, rejects, portions=None)
            frame = spark.read.text(str(feed.portions))
            sources.frames[name] = [Frame(_in_turn(frame, stream), fed=True)]
        sources.parts[name] = tuple(parts.get(name, ()))
    return sources


def streaming_sources(
    query: Query,
    spark: SparkSession,
    directory: Path,
    rejects: RejectLog,
    bounded: bool,
    parts: Mapping[str, Sequence[str]],
    portions: int | None = None,
) -> Sources:
    """The streams portion by portion.  Those that are DataFrames have a feed, too, through which
    they can be told that they have ended; the others end by themselves if `bounded`."""
    sources = Sources({}, {})
    for name, stream in streams_of(query).items():
        feed = Feed(directory / name)
        portion = spark.readStream.option("maxFilesPerTrigger", 1).text(str(feed.portions))
        fed = Frame(_in_turn(portion, stream), fed=True)
        if isinstance(stream.source, DataFrameSource):
            sources.frames[name] = [Frame(stream.source.frame), fed]
        else:
            fill(feed, stream, rejects, portions, ends=bounded)
            sources.frames[name] = [fed]
        sources.parts[name] = tuple(parts.get(name, ()))
    return sources


def _in_turn(portions: DataFrame, stream: StreamDefinition) -> DataFrame:
    """One task reads one portion after the other, unless every file is a sub-source of its own."""
    if stream.progress is not None and stream.progress.per_file:
        return portions
    return portions.coalesce(1)


def parts_of(query: Query) -> dict[str, list[str]]:
    """By stream: the files that are sub-sources of their own."""
    return {
        name: list(stream.source.parts())
        for name, stream in streams_of(query).items()
        if stream.progress is not None and stream.progress.per_file and stream.source is not None
    }
