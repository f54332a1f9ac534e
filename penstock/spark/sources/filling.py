"""Filling a feed: what a source has, and its feed has not.

What an earlier run has read must still be what it was: files keep their sizes, and data in memory
begins with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from penstock.errors import EngineError, SourceError
from penstock.plan.streams import StreamDefinition
from penstock.sources.checksums import rows_checksum
from penstock.sources.files import FileFormat, FileSource, NoFilesError
from penstock.sources.formats.data_file import DataFile
from penstock.sources.formats.json_lines import LONGEST_LINE, is_json
from penstock.sources.live import LiveSource
from penstock.sources.rejects import Reject, RejectLog, rejects_batch
from penstock.spark.sources.feed import Feed, FileToRead, Portion

ROWS_AT_ONCE = 1 << 20
FILES_AT_ONCE = 16
_ANEW = "another --checkpoint, or delete the directory to begin anew"


def fill(
    feed: Feed,
    stream: StreamDefinition,
    strict: bool = False,
    portions: int | None = None,
    kept: bool = True,
    growing: bool = False,
    followed: bool = False,
) -> None:
    """All that a source has and the feed has not.  `portions` is how many there are to be; `kept`
    is whether somebody may go on from the feed later, and wants to know what it was.  Of files that
    may still be `growing`, those whose last line is not complete are left for a later run.  Where
    files are `followed`, those of a pattern may all be still to come."""
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
    """The files that are `ready`; the others are for another time."""
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
    """Whether somebody does not seem to be writing the last line of a file: it has ended, or is
    JSON already.  Tasks read the rest of a file, which may be long."""
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
    """The new rows in portions, after they have been written beside them."""
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
    """Whether the data begins with what has been read of it before."""
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
