"""The frames that Spark reads for the streams of a query: DataFrames of the user or feeds; with the
names of their directories, and the watch for new files."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.io.sources.files import FileSource, NoFilesError
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.streams import StreamDefinition
from penstock.spark.sources.dataframe import DataFrameSource, Frame, Sources
from penstock.spark.sources.feed import (
    Feed,
    FileToRead,
    ends_with_a_line,
    fill,
    fill_files,
    write_stamp,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONG = 80  # file systems take 255 bytes, and suffixes may be appended


def file_name(name: str) -> str:
    """Escape a name for use as a file name; different names stay different, also on a file system
    that ignores case, and stay in their directory.

    >>> file_name("packets"), file_name("Packets"), file_name("../a")
    ('packets', '~50ackets', '~2e~2e~2fa')
    """
    escaped = "".join(
        chr(byte) if byte in _PLAIN else f"~{byte:02x}"
        for byte in name.encode("utf-8", "surrogatepass")
    )
    if len(escaped) <= _LONG:
        return escaped or "~"
    # two tildes stand in no escaped name, so a shortened one is never taken for a whole one
    digest = hashlib.sha256(escaped.encode()).hexdigest()
    return f"{escaped[: _LONG // 2]}~~{digest[:32]}"


# The frames of each stream of a query: a DataFrame of the user, or a feed.


def streams_of(*queries: QueryPlan) -> dict[str, StreamDefinition]:
    nodes = (node for query in queries for node in query.walk())
    return {node.stream.name: node.stream for node in nodes if isinstance(node, Scan)}


def batch_sources(
    queries: Sequence[QueryPlan], spark: SparkSession, directory: Path, strict: bool
) -> Sources:
    """Frames for a batch job, which reads all rows at once."""
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
    """The feeds of the streams of some queries, by name.  DataFrames have one, too, which carries
    their bounds and their end."""

    streams: Mapping[str, StreamDefinition]
    by_name: Mapping[str, Feed]

    @staticmethod
    def of(queries: Sequence[QueryPlan], directory: Path) -> Feeds:
        streams = streams_of(*queries)
        return Feeds(streams, {name: Feed(directory / file_name(name)) for name in streams})

    def fill(
        self,
        strict: bool,
        portions: int | None,
        kept: bool,
        growing: bool = False,
        followed: bool = False,
    ) -> None:
        for name in self.own:
            stream = self.streams[name]
            fill(self.by_name[name], stream, strict, portions, kept, growing, followed)

    def stamp(self, stamped: Sequence[Mapping[str, int]]) -> None:
        """Write the last stamps of streams, as queries know them: the next micro-batch resumes from
        there."""
        for name in {name for each in stamped for name in each}:
            last = max(each[name] for each in stamped if name in each)
            write_stamp(self.by_name[name].directory, last)

    @property
    def own(self) -> list[str]:
        """Streams that Spark reads through their feeds alone."""
        return [n for n, s in self.streams.items() if not isinstance(s.source, DataFrameSource)]

    @property
    def ending(self) -> bool:
        """Whether a final run has begun to end the streams: some feeds may have the end already."""
        return any(feed.ended for feed in self.by_name.values())

    @property
    def promised(self) -> int | None:
        """Highest bound in any feed, or None."""
        found = [feed.promised for feed in self.by_name.values() if feed.promised is not None]
        return max(found, default=None)


def streaming_sources(
    feeds: Feeds, spark: SparkSession, parts: Mapping[str, Sequence[str]]
) -> Sources:
    """Frames that read streams portion by portion."""
    sources = Sources({}, {})
    for name, stream in feeds.streams.items():
        feed = feeds.by_name[name]
        reader = spark.readStream.option("maxFilesPerTrigger", 1)
        # the checkpoint may be somewhere else by now, and portions have numbers for names
        portion = reader.option("fileNameOnly", "true").text(str(feed.portions))
        own = str(feed.directory)
        fed = Frame(_in_turn(portion, stream), own, own)
        given = stream.source
        frames = [given_frame(stream, own)] if isinstance(given, DataFrameSource) else []
        sources.frames[name] = [*frames, fed]
        sources.parts[name] = tuple(parts.get(name, ()))
    return sources


def given_frame(stream: StreamDefinition, stamps: str | None = None) -> Frame:
    """Frame of a stream that is a DataFrame.  If tuples get their times here, one task stamps them
    in order: those of several tasks would be late for each other."""
    assert isinstance(stream.source, DataFrameSource)
    frame = stream.source.frame
    in_turn = stream.stamped and frame.isStreaming
    return Frame(frame.coalesce(1) if in_turn else frame, stamps=stamps)


def _in_turn(portions: DataFrame, stream: StreamDefinition) -> DataFrame:
    """Read portions in one task, one after the other, unless every file is a sub-source of its
    own."""
    if stream.progress is not None and stream.progress.per_file and not stream.stamped:
        return portions
    return portions.coalesce(1)


def parts_of(*queries: QueryPlan) -> dict[str, list[str]]:
    """Files that are sub-sources of their own, by stream."""
    found: dict[str, list[str]] = {}
    for name, stream in streams_of(*queries).items():
        if stream.progress is not None and stream.progress.per_file and stream.source is not None:
            try:
                found[name] = list(stream.source.parts())
            except NoFilesError:  # reported when the feed is filled
                found[name] = []
    return found


# The watch: files that appear during a run are added to its feeds.

LOOK = 1.0  # seconds between two looks
_PATIENCE = 3  # looks that may fail before a warning is logged

_log = logging.getLogger(__name__)


class FileWatch:
    """Polls the directories of streams, and adds new files to their feeds."""

    def __init__(self, feeds: Feeds, leaving: threading.Event) -> None:
        self._feeds = feeds
        self._leaving = leaving
        self._sizes: dict[tuple[str, str], int] = {}  # by stream and file, at the last look
        self._failed: Counter[str] = Counter()  # looks in a row, by stream

    def look_on(self) -> None:
        """Poll until the run is left."""
        while not self._leaving.wait(LOOK):
            self.look()

    def look(self) -> None:
        for name, stream in self._feeds.streams.items():
            if not isinstance(stream.source, FileSource):
                continue
            try:
                fill_files(
                    self._feeds.by_name[name],
                    stream,
                    stream.source,
                    ready=lambda file, name=name: self._is_whole(name, file),  # type: ignore[misc]
                    followed=True,
                )
                self._failed[name] = 0
            except (PenstockError, OSError) as error:  # what was there may be gone for a moment
                self._failed[name] += 1
                if self._failed[name] == _PATIENCE:
                    _log.warning("stream %s: no new files are read: %s", name, error)

    def _is_whole(self, stream: str, file: FileToRead) -> bool:
        """Whether a file is complete: it has not grown since the last poll, and ends with a
        line."""
        before = self._sizes.get((stream, file.name))
        self._sizes[stream, file.name] = file.size
        return before == file.size and ends_with_a_line(file)
