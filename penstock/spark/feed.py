"""Penstock's own sources as Spark streams: a directory of small files that say what to read.

Every file of the feed is one micro-batch of a stream: some data files, some rows of an Arrow file,
or the end of the stream.  Tasks read the data itself, with the same readers as the local engine, so
rows that do not fit are set aside by the same rules.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from penstock.errors import EngineError
from penstock.model.schema import Schema
from penstock.plan.streams import StreamDefinition
from penstock.sources.data_file import DataFile
from penstock.sources.files import FileSource, read_file
from penstock.sources.live import LiveSource
from penstock.sources.rejects import RejectLog, StreamRejects
from penstock.sources.source import Chunk

ROWS_AT_ONCE = 1 << 20
FILES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Portion:
    """What to read next: files with names and formats, or rows of an Arrow file; or no more."""

    number: int
    files: tuple[tuple[str, str, str], ...] = ()
    arrow: str | None = None
    begin: int = 0
    end: int = 0
    ends: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> Portion:
        given = json.loads(text)
        given["files"] = tuple(tuple(file) for file in given["files"])
        return Portion(**given)

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        for path, name, file_format in self.files:
            for batch in read_file(DataFile(Path(path), name), file_format, schema, rejects):
                if batch.num_rows:
                    yield Chunk(batch, name)
        if self.arrow is not None:
            with pa.memory_map(self.arrow) as source:
                table = pa.ipc.open_file(source).read_all().slice(self.begin, self.end - self.begin)
                for batch in table.to_batches():
                    yield Chunk(batch)


def portions_in(batches: Iterable[pa.RecordBatch]) -> list[Portion]:
    """The portions that Spark has read the texts of, in order."""
    texts = [text for batch in batches for text in batch.column(0).to_pylist()]
    return sorted(map(Portion.of, texts), key=lambda portion: portion.number)


class Feed:
    """The portions of one stream in a directory, oldest first by the time of the file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.portions = directory / "portions"
        self.portions.mkdir(parents=True, exist_ok=True)

    @property
    def size(self) -> int:
        return sum(1 for _ in self.portions.glob("*.json"))

    def add(self, portion: Portion) -> None:
        """The file appears at once and whole, and is newer than all others."""
        name = f"{portion.number:09}.json"
        written = self.directory / f".{name}"
        written.write_text(portion.text() + "\n", encoding="utf-8")
        moment = 1_700_000_000 + portion.number  # what Spark sorts by; any moment will do
        os.utime(written, (moment, moment))
        written.replace(self.portions / name)

    def read_to(self) -> int:
        """Up to which row of the Arrow file there are portions."""
        last = self._last()
        return last.end if last is not None else 0

    def end(self) -> None:
        if not self.ended():
            self.add(Portion(self.size, ends=True))

    def ended(self) -> bool:
        last = self._last()
        return last is not None and last.ends

    def _last(self) -> Portion | None:
        if self.size == 0:
            return None
        path = self.portions / f"{self.size - 1:09}.json"
        return Portion.of(path.read_text(encoding="utf-8"))


def fill(
    feed: Feed,
    stream: StreamDefinition,
    rejects: RejectLog,
    portions: int | None = None,
    ends: bool = True,
) -> None:
    """All that a source has and the feed has not, and then its end, unless more may come.
    `portions` is how many there are to be."""
    if feed.ended():
        return
    source = stream.source
    if isinstance(source, LiveSource) or source is None:
        what = source.describe() if source is not None else "it has no source"
        raise EngineError(
            f"stream {stream.name} cannot be read by Spark: {what}",
            expected="FROM FILES, VALUES, data in memory, or a Spark DataFrame",
            hint="the local engine: --engine local, or connect('local')",
        )
    if isinstance(source, FileSource):
        _fill_files(feed, source, portions)
    else:
        _fill_rows(feed, stream, rejects, portions)
    if ends:
        feed.end()


def _fill_files(feed: Feed, source: FileSource, portions: int | None) -> None:
    known = set()
    for path in feed.portions.glob("*.json"):
        known |= {file[1] for file in Portion.of(path.read_text(encoding="utf-8")).files}
    files = [file for file in source.files() if file[1] not in known]
    at_once = FILES_AT_ONCE if portions is None else -(-len(files) // portions)
    for begin in range(0, len(files), max(1, at_once)):
        feed.add(Portion(feed.size, tuple(files[begin : begin + max(1, at_once)])))


def _fill_rows(
    feed: Feed, stream: StreamDefinition, rejects: RejectLog, portions: int | None
) -> None:
    path = feed.directory / "rows.arrow"
    begun = feed.read_to()
    rows = _rows_in(path) if begun else _write_rows(path, stream, rejects)
    at_once = ROWS_AT_ONCE if portions is None else max(1, -(-rows // portions))
    for begin in range(begun, rows, at_once):
        end = min(rows, begin + at_once)
        feed.add(Portion(feed.size, arrow=str(path), begin=begin, end=end))


def _write_rows(path: Path, stream: StreamDefinition, rejects: RejectLog) -> int:
    assert stream.source is not None
    schema = stream.input_schema
    rows = 0
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema.arrow) as writer:
        for chunk in stream.source.read(schema, rejects.of(stream.name)):
            writer.write_batch(chunk.batch)
            rows += chunk.batch.num_rows
    return rows


def _rows_in(path: Path) -> int:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
