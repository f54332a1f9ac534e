"""What Spark reads for each stream of a query: a DataFrame that was given, or a feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Scan
from penstock.plan.streams import StreamDefinition
from penstock.spark.sources.dataframe import DataFrameSource
from penstock.spark.sources.feed import Feed
from penstock.spark.sources.file_names import file_name
from penstock.spark.sources.filling import fill
from penstock.spark.sources.given import Frame, Sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def streams_of(*queries: QueryPlan) -> dict[str, StreamDefinition]:
    nodes = (node for query in queries for node in query.walk())
    return {node.stream.name: node.stream for node in nodes if isinstance(node, Scan)}


def batch_sources(
    queries: Sequence[QueryPlan], spark: SparkSession, directory: Path, strict: bool
) -> Sources:
    """All that there is, in one go."""
    parts = parts_of(*queries)
    sources = Sources({}, {})
    for name, stream in streams_of(*queries).items():
        if isinstance(stream.source, DataFrameSource):
            sources.frames[name] = [Frame(stream.source.frame)]
        else:
            feed = Feed(directory / file_name(name))
            fill(feed, stream, strict, kept=False)
            feed.end()
            frame = spark.read.text(str(feed.portions))
            sources.frames[name] = [Frame(_in_turn(frame, stream), str(feed.directory))]
        sources.parts[name] = tuple(parts.get(name, ()))
    return sources


@dataclass(frozen=True)
class Feeds:
    """The feeds of the streams of some queries by their names.  Those that are DataFrames have one,
    too, through which they are told what they have come to."""

    streams: Mapping[str, StreamDefinition]
    by_name: Mapping[str, Feed]

    @staticmethod
    def of(queries: Sequence[QueryPlan], directory: Path) -> Feeds:
        streams = streams_of(*queries)
        return Feeds(streams, {name: Feed(directory / file_name(name)) for name in streams})

    def fill(self, strict: bool, portions: int | None, kept: bool, growing: bool = False) -> None:
        for name in self.own:
            fill(self.by_name[name], self.streams[name], strict, portions, kept, growing)

    @property
    def own(self) -> list[str]:
        """The streams that Spark reads through their feeds alone."""
        return [n for n, s in self.streams.items() if not isinstance(s.source, DataFrameSource)]

    @property
    def ending(self) -> bool:
        """Whether a final run has begun to end the streams: some may have heard of it."""
        return any(feed.ended for feed in self.by_name.values())

    @property
    def promised(self) -> int | None:
        """The highest promise, if there has been one."""
        found = [feed.promised for feed in self.by_name.values() if feed.promised is not None]
        return max(found, default=None)


def streaming_sources(
    feeds: Feeds, spark: SparkSession, parts: Mapping[str, Sequence[str]]
) -> Sources:
    """The streams portion by portion."""
    sources = Sources({}, {})
    for name, stream in feeds.streams.items():
        feed = feeds.by_name[name]
        reader = spark.readStream.option("maxFilesPerTrigger", 1)
        # the checkpoint may be somewhere else by now, and portions have numbers for names
        portion = reader.option("fileNameOnly", "true").text(str(feed.portions))
        fed = Frame(_in_turn(portion, stream), str(feed.directory))
        given = stream.source
        frames = [Frame(given.frame)] if isinstance(given, DataFrameSource) else []
        sources.frames[name] = [*frames, fed]
        sources.parts[name] = tuple(parts.get(name, ()))
    return sources


def _in_turn(portions: DataFrame, stream: StreamDefinition) -> DataFrame:
    """One task reads one portion after the other, unless every file is a sub-source of its own."""
    if stream.progress is not None and stream.progress.per_file:
        return portions
    return portions.coalesce(1)


def parts_of(*queries: QueryPlan) -> dict[str, list[str]]:
    """By stream: the files that are sub-sources of their own."""
    return {
        name: list(stream.source.parts())
        for name, stream in streams_of(*queries).items()
        if stream.progress is not None and stream.progress.per_file and stream.source is not None
    }
