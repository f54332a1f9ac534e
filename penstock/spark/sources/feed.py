"""Feeds: Penstock's own sources as Spark streams, each a directory of small files that name what to
read; how feeds are filled; and the last stamps of streams.

Every file of the feed is one micro-batch of a stream: some data files, some rows of an Arrow file,
a bound, or the end of the stream.  Tasks read the data itself, with the same readers as the local
engine, so bad rows are rejected by the same rules.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from penstock.errors import CheckpointError, EngineError, SourceError
from penstock.io.checksums import rows_checksum, text_checksum
from penstock.io.formats.data_file import DataFile
from penstock.io.formats.json_lines import LONGEST_LINE, is_json
from penstock.io.sources.files import FileFormat, FileSource, NoFilesError, read_file
from penstock.io.sources.rejects import Reject, RejectLog, StreamRejects, rejects_batch
from penstock.io.sources.source import Chunk, LiveSource
from penstock.model.clock import Clock, SteadyClock, SystemClock
from penstock.model.types import Schema
from penstock.plan.streams import StreamDefinition
from penstock.spark.run.job_results import rejects_of

_RESTORE = "restore the checkpoint, or delete its directory to start over"
_HEAD = "head"  # the file that says how many portions there are


class FileToRead(NamedTuple):
    """A data file in a portion, with the size that it must keep."""

    path: str
    name: str
    format: str
    size: int
    row_limit: int | None = None

    def check(self) -> None:
        """Check the size before reading; a file that is gone is an error of the reader."""
        try:
            size = Path(self.path).stat().st_size
        except OSError:
            return
        self.check_size(size)

    def check_size(self, size: int) -> None:
        """Check that a file has kept its size since it was read, or named to be read."""
        if size != self.size:
            raise SourceError(
                f"{self.name} has changed: it had {self.size:,} bytes when it was handed to the"
                f" query, and has {size:,} now",
                expected="files that stay as they are",
                hint="new rows in new files",
            )


@dataclass(frozen=True, slots=True)
class Portion:
    """The next part of a stream: files, or rows of an Arrow file in the directory of the feed; or a
    bound (no later tuple is below it), or the end.  `joins` are the files of this portion and of
    those that were made with it, if each is a sub-source: none is a newcomer to the others.  `rows`
    and `rejected` count those of the source up to here, if it is not made of files."""

    number: int
    files: tuple[FileToRead, ...] = ()
    joins: tuple[str, ...] = ()
    arrow: str | None = None
    begin: int = 0
    end: int = 0
    rows: int = 0
    rejects: str | None = None  # an Arrow file with rows that could not be read
    rejected: int = 0
    checksum: str | None = None  # of the rows and the rejects
    promise: int | None = None
    ends: bool = False
    pinned: bool = False  # the files have to be where these paths say, not where links lead now

    def text(self) -> str:
        said = json.dumps(asdict(self))
        return f"{text_checksum(said)} {said}"

    @staticmethod
    def of(text: str, place: str = "a portion of the feed") -> Portion:
        checksum, _, said = text.strip().partition(" ")
        if checksum.startswith("{"):
            raise CheckpointError(
                f"{place} was written by an earlier version of Penstock",
                hint="another --checkpoint, or delete the directory to start over",
            )
        if not said or text_checksum(said) != checksum:
            raise CheckpointError(f"{place} is not what was written there", hint=_RESTORE)
        given = json.loads(said)
        given["files"] = tuple(FileToRead(*file) for file in given["files"])
        given["joins"] = tuple(given["joins"])
        return Portion(**given)

    def read(self, schema: Schema, rejects: StreamRejects, directory: Path) -> Iterator[Chunk]:
        for file in self.files:
            if self.pinned and Path(file.path).resolve() != Path(file.path):
                raise SourceError(
                    f"{file.name} is not where it was any more", expected="no new links"
                )
            file.check()
            data = DataFile(Path(file.path), file.name, row_limit=file.row_limit)
            for batch in read_file(data, file.format, schema, rejects):
                if batch.num_rows:
                    yield Chunk(batch, file.name)
        if self.arrow is not None and self.rejects is not None:
            rows = _read_arrow(directory / self.arrow)[self.begin : self.end]
            bad = _read_arrow(directory / self.rejects)
            self._check(rows, bad)
            self._report_rejects(bad, rejects)
            for batch in rows.to_batches():
                yield Chunk(batch)

    @property
    def first(self) -> bool:
        """Whether the portion is the first one of its Arrow file: it reports the rejects."""
        return self.begin == 0

    @property
    def rows_before(self) -> int:
        return self.rows - (self.end - self.begin)

    def _check(self, rows: pa.Table, bad: pa.Table) -> None:
        tables = [rows, bad] if self.first else [rows]
        if self.checksum is not None and rows_checksum(*tables) != self.checksum:
            raise CheckpointError(f"{self.arrow} is not what was written there", hint=_RESTORE)

    def _report_rejects(self, bad: pa.Table, rejects: StreamRejects) -> None:
        """Report the rejected rows, once; the numbers of other rows depend on them."""
        readable, unreadable = self.rows - self.end, self.rejected - bad.num_rows
        rejects.log.assume_bad_rows(rejects.stream, "", readable + unreadable, readable)
        for each in (each for batch in bad.to_batches() for each in rejects_of(batch)):
            if self.first:
                rejects.log.add(each)
            else:
                rejects.log.know_bad_row(each.stream, each.source, each.row)


def _read_arrow(path: Path) -> pa.Table:
    try:
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowException) as error:
        first_line = str(error).partition("\n")[0]
        raise CheckpointError(f"{path.name} cannot be read: {first_line}", hint=_RESTORE) from error


def portions_in(batches: Iterable[pa.RecordBatch]) -> list[Portion]:
    """Parse the portions whose texts Spark has read, in order."""
    texts = [text for batch in batches for text in batch.column(0).to_pylist()]
    return sorted(map(Portion.of, texts), key=lambda portion: portion.number)


class Feed:
    """The portions of one stream in a directory.  Spark reads them in the order of the times of the
    files, so these are set from the numbers, even after a copy."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.portions = directory / "portions"
        self.portions.mkdir(parents=True, exist_ok=True)
        self.written: list[Portion] = []
        self.files: dict[str, FileToRead] = {}
        self._load()

    def _load(self) -> None:
        paths = sorted(self.portions.glob("*.json"))
        head = self.directory / _HEAD
        promised = _number_in(head) if head.exists() else 0
        for number in range(max(len(paths), promised)):
            path = self._path(number)
            if not path.exists():
                raise CheckpointError(f"{path} is missing", hint=_RESTORE)
            # bytes that are no text are damaged, as the checksum says
            self._take(Portion.of(path.read_text(encoding="utf-8", errors="replace"), str(path)))
            _set_time(path, number)
        if promised < len(paths):  # the process ended in between
            self._count()

    def _take(self, portion: Portion) -> None:
        self.written.append(portion)
        self.files |= {file.name: file for file in portion.files}

    @property
    def size(self) -> int:
        return len(self.written)

    def add(self, portion: Portion) -> None:
        """Add a portion.  The file appears at once and whole, and is newer than all others."""
        path = self._path(portion.number)
        written = self.directory / f".{path.name}"
        written.write_text(portion.text() + "\n", encoding="utf-8")
        _set_time(written, portion.number)
        written.replace(path)
        self._take(portion)
        self._count()

    def _path(self, number: int) -> Path:
        return self.portions / f"{number:09}.json"

    def _count(self) -> None:
        """Write the number of portions, so that a missing one is detected."""
        written = self.directory / f".{_HEAD}"
        written.write_text(str(self.size), encoding="utf-8")
        written.replace(self.directory / _HEAD)

    def bytes_of(self, portions: int) -> int:
        """Size of the files in the first portions."""
        return sum(file.size for each in self.written[:portions] for file in each.files)

    @property
    def rows(self) -> int:
        """Number of rows in the portions of a source that is not made of files."""
        return max((portion.rows for portion in self.written), default=0)

    @property
    def rejected(self) -> int:
        return max((portion.rejected for portion in self.written), default=0)

    @property
    def promised(self) -> int | None:
        promises = [each.promise for each in self.written if each.promise is not None]
        return max(promises, default=None)

    def promise(self, bound: int) -> bool:
        """Add a bound, below which no later tuple is; whether that is new."""
        if self.promised is not None and self.promised >= bound:
            return False
        self.add(Portion(self.size, promise=bound))
        return True

    def end(self) -> bool:
        """End the stream; whether that is new."""
        if self.ended:
            return False
        self.add(Portion(self.size, ends=True))
        return True

    @property
    def ended(self) -> bool:
        return bool(self.written) and self.written[-1].ends


def _number_in(path: Path) -> int:
    try:
        return int(path.read_text("utf-8"))
    except ValueError:
        raise CheckpointError(f"{path} is not what was written there", hint=_RESTORE) from None


def _set_time(path: Path, number: int) -> None:
    moment = 1_700_000_000 + number  # any moment will do
    os.utime(path, (moment, moment))


# Filling a feed with the rows of its source that are new.
#
# Rows that an earlier run has read must not have changed: files keep their sizes, and data in
# memory begins with the same rows.

ROWS_AT_ONCE = 1 << 20
FILES_AT_ONCE = 16
_ANEW = "another --checkpoint, or delete the directory to start over"


def fill(
    feed: Feed,
    stream: StreamDefinition,
    strict: bool = False,
    portions: int | None = None,
    kept: bool = True,
    growing: bool = False,
    followed: bool = False,
) -> None:
    """Add portions for all rows that the source has and the feed has not.  `portions` is how many
    there are to be; `kept` is whether a later run may resume from the feed, which then has
    checksums.  Of files that may still be `growing`, those whose last line is not complete are left
    for a later run.  Where files are `followed`, those of a pattern may all be still to come."""
    if feed.ended:
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
        ready = ends_with_a_line if growing else (lambda _: True)
        fill_files(feed, stream, source, portions, ready, followed)
    else:
        _fill_rows(feed, stream, RejectLog(strict), portions, kept)


def fill_files(
    feed: Feed,
    stream: StreamDefinition,
    source: FileSource,
    portions: int | None = None,
    ready: Callable[[FileToRead], bool] = lambda _: True,
    followed: bool = False,
) -> None:
    """Add portions for the files that are `ready`; the others are left for later."""
    found = _found(feed, source, followed)
    for file in found:
        if file.name in feed.files:
            feed.files[file.name].check_size(file.size)
    files = [file for file in found if file.name not in feed.files and ready(file)]
    at_once = FILES_AT_ONCE if portions is None else max(1, -(-len(files) // portions))
    per_file = stream.progress is not None and stream.progress.per_file
    joins = tuple(file.name for file in files) if per_file else ()
    for begin in range(0, len(files), at_once):
        own = tuple(files[begin : begin + at_once])
        pinned = source.allowed is not None
        feed.add(Portion(feed.size, own, () if begin else joins, pinned=pinned))


def ends_with_a_line(file: FileToRead) -> bool:
    """Whether the last line of a file seems to be complete: it has ended, or is JSON already.
    Tasks read the rest of a file, which may be long."""
    data = DataFile(Path(file.path), file.name)
    if file.format == FileFormat.PARQUET.value or data.is_compressed:
        return True
    with data.reading(file.format), data.path.open("rb") as stream:
        stream.seek(max(0, file.size - 1))
        if stream.read(1) in (b"\n", b"\r"):
            return True
        if file.format != FileFormat.JSON.value:
            return False
        stream.seek(max(0, file.size - LONGEST_LINE))
        return is_json(stream.read().rpartition(b"\n")[2])


def _found(feed: Feed, source: FileSource, followed: bool) -> list[FileToRead]:
    try:
        return [_sized(*file, source.row_limit) for file in source.files()]
    except NoFilesError:
        if not feed.files and not (followed and source.may_come):
            raise
        return []  # those that have been read may have been taken away


def _sized(path: str, name: str, file_format: str, row_limit: int | None) -> FileToRead:
    try:
        return FileToRead(path, name, file_format, Path(path).stat().st_size, row_limit)
    except FileNotFoundError:
        raise SourceError(f"{name} does not exist (any more)") from None


def _fill_rows(
    feed: Feed, stream: StreamDefinition, log: RejectLog, portions: int | None, kept: bool
) -> None:
    assert stream.source is not None
    schema = stream.input_schema
    chunks = stream.source.read(schema, log.of(stream.name))
    table = pa.Table.from_batches([chunk.batch for chunk in chunks], schema.arrow)
    rejects = log.take()
    if kept:
        _check_rows(feed, stream.name, table, rejects)
    for portion in _cut(feed, table, rejects, portions, kept):
        feed.add(portion)


def _cut(
    feed: Feed, table: pa.Table, rejects: list[Reject], portions: int | None, kept: bool
) -> Iterator[Portion]:
    """Write the new rows to Arrow files, and yield the portions that name them."""
    new, bad = table.slice(feed.rows), _as_table(rejects[feed.rejected :])
    if not new.num_rows and not bad.num_rows:
        return
    before, number = feed.rows, feed.size
    _write(feed.directory / f"rows-{number:09}.arrow", new)
    _write(feed.directory / f"rejects-{number:09}.arrow", bad)
    at_once = ROWS_AT_ONCE if portions is None else max(1, -(-table.num_rows // portions))
    for begin in range(0, max(1, new.num_rows), at_once):
        own = new.slice(begin, at_once)
        tables = [own] if begin else [own, bad]
        yield Portion(
            feed.size,
            arrow=f"rows-{number:09}.arrow",
            begin=begin,
            end=begin + own.num_rows,
            rows=before + begin + own.num_rows,
            rejects=f"rejects-{number:09}.arrow",
            rejected=len(rejects),
            checksum=rows_checksum(*tables) if kept else None,
        )


def _check_rows(feed: Feed, name: str, table: pa.Table, rejects: list[Reject]) -> None:
    """Check that the data begins with the rows that have been read before."""
    begun = 0
    for portion in feed.written:
        if portion.arrow is None:
            continue
        size = portion.end - portion.begin
        first = portion.rows - size
        if portion.rows > table.num_rows or portion.rejected > len(rejects):
            raise SourceError(
                f"the data of stream {name} has {table.num_rows + len(rejects):,} rows,"
                f" and {feed.rows + feed.rejected:,} have been read on this checkpoint",
                expected="the same rows, and maybe more behind them",
                hint=_ANEW,
            )
        tables = [table.slice(first, size)]
        if portion.first:
            tables.append(_as_table(rejects[begun : portion.rejected]))
        if rows_checksum(*tables) != portion.checksum:
            raise SourceError(
                f"the data of stream {name} has changed since it was read on this checkpoint:"
                f" its rows {first + 1:,} to {portion.rows:,} are not the same any more",
                expected="the same rows, and maybe more behind them",
                hint=_ANEW,
            )
        begun = portion.rejected


def _write(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _as_table(rejects: list[Reject]) -> pa.Table:
    return pa.Table.from_batches([rejects_batch(rejects)])


# The last stamp of a stream whose tuples get their times here.  Tasks know nothing of earlier ones,
# so every micro-batch resumes from the stamp that is written next to the feed of the stream.

_NAME = "stamped"


def write_stamp(feed: Path, last: int) -> None:
    written = feed / f".{_NAME}"
    written.write_text(str(last), encoding="utf-8")
    written.replace(feed / _NAME)


def task_clock(stream: StreamDefinition, feed: str | None) -> Clock:
    """Clock of a task; for stamps, one that never goes back behind the last of them."""
    if not stream.stamped:
        return SystemClock()
    path = None if feed is None else Path(feed) / _NAME
    last = int(path.read_text("utf-8")) if path is not None and path.exists() else None
    return SteadyClock(SystemClock(), last)


def last_stamp(clock: Clock) -> int | None:
    return clock.last if isinstance(clock, SteadyClock) else None
