"""Files on disk, one or many behind a pattern, read one after the other in the order of their
names.

Every file is a partition, so that PER FILE can keep their bounds apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from pathlib import Path

import pyarrow as pa

from penstock.errors import SourceError, nearest
from penstock.io.access import Allowed, NotAllowedError, refuse_file, resolve
from penstock.io.formats.csv_files import end_of_rows, read_delimited
from penstock.io.formats.data_file import DataFile, check_unchanged, look_at
from penstock.io.formats.json_lines import read_json_blocks, read_json_lines
from penstock.io.formats.long_rows import written_limit
from penstock.io.formats.parquet import read_parquet
from penstock.io.sources.patterns import FoundPath, goes_by, has_magic, matching, without_magic
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Attention, Bell, Chunk, FileSeen, PartRead, nothing_of
from penstock.model.types import Schema


class FileFormat(Enum):
    """Formats of files that can be read."""

    PARQUET = "PARQUET"
    CSV = "CSV"
    JSON = "JSON"


_ENDINGS = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
}
_COMPRESSED = (".gz", ".bz2", ".zst")
_READERS: dict[
    FileFormat, Callable[[DataFile, Schema, StreamRejects], Iterator[pa.RecordBatch]]
] = {
    FileFormat.PARQUET: read_parquet,
    FileFormat.CSV: read_delimited,
    FileFormat.JSON: read_json_lines,
}
_HINTED = 3
_LISTED = 1000  # a directory may hold more files than a hint needs


def format_of(name: str) -> FileFormat | None:
    """Format by the ending of a name.

    >>> format_of("data/*.csv.gz")
    <FileFormat.CSV: 'CSV'>
    """
    name = name.rpartition("/")[2].lower()
    stem, _, ending = name.rpartition(".")
    if f".{ending}" in _COMPRESSED:
        stem, _, ending = stem.rpartition(".")
    return _ENDINGS.get(f".{ending}") if stem else None


class NoFilesError(SourceError):
    """No file matches, or none any more."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """Rows of the files that a path or pattern names."""

    pattern: str
    format: FileFormat | None = None  # None: by the ending of each file
    base: Path | None = None  # where a relative pattern starts; None: the current directory
    allowed: Allowed | None = None  # None: every file that the process may read
    row_limit: int | None = None  # bytes; None: that of the format

    def describe(self) -> str:
        known = self.format or format_of(self.pattern)
        quoted = self.pattern.replace("'", "''")
        text = f"FILES '{quoted}'" + (f" FORMAT {known.value}" if known else "")
        return text + written_limit(self.row_limit)

    def parts(self) -> list[str]:
        return [found.name for found in self._found()]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return self.listen(schema, rejects, Attention())

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        """Read all files; the reader may leave while they are searched for."""
        directory = self._directory
        files = [(found, self._format(found.name)) for found in self._found(attention)]
        before = began = 0
        for found, file_format in files:
            file = self._file(found, directory)
            for batch in _READERS[file_format](file, schema, rejects):
                if batch.num_rows:
                    position = before + file.meter.position
                    yield Chunk(batch, file.name, position, began)
                    began = position
            before += file.size

    def read_on(
        self,
        schema: Schema,
        rejects: StreamRejects,
        known: Mapping[str, PartRead],
        growing: bool,
        attention: Attention | None = None,
        followed: bool = False,
    ) -> Iterator[Chunk]:
        """Read what an earlier reading has not: new files, and what has been appended to the
        others. A file that is still `growing` may end in an incomplete line, which is left for the
        next reading. Where files are `followed`, a pattern may match none yet."""
        attention = attention or Attention()
        try:
            directory = self._directory
            files = [self._file(found, directory) for found in self._found(attention)]
        except NoFilesError:
            if not known and not (followed and self.may_come):
                raise
            files = []  # those that have been read may have been taken away
        if attention.bell.closed:
            return
        self._check_unfinished(files, known)
        begun = []
        for file in files:
            read, now = known.get(file.name, PartRead()), look_at(file, whole=True)
            if read.seen is not None:
                file_format = self._format(file.name)
                text, lines = file_format is not FileFormat.PARQUET, file_format is FileFormat.CSV
                check_unchanged(file, read.seen, text, lines)
            if not _is_as_seen(read, now) or (not growing and self._has_half_a_line(file, read)):
                begun.append((file, read, now))
                # all of them are there before one of them is read
                yield Chunk(nothing_of(schema), file.name, seen=replace(now, whole=False))
        before = sum(file.size for file in files) - sum(file.size for file, _, _ in begun)
        for file, read, now in begun:
            end = self._end_of_rows(file, read, growing)
            begun_with = file if end is None else replace(file, end=end)
            yield from self._rest_of(begun_with, read, schema, rejects, before, growing)
            before += file.size
            if end is not None:  # what has come since the first look is for the next one
                now = replace(now, left=max(0, now.size - end))
            yield Chunk(nothing_of(schema), file.name, before, seen=now)

    def _has_half_a_line(self, file: DataFile, read: PartRead) -> bool:
        """Whether an earlier reading may have left the end of a file for later."""
        if self._format(file.name) is FileFormat.CSV:
            return read.seen is not None and read.seen.left > 0
        offset = read.restart.offset if read.restart is not None else 0
        lines = self._format(file.name) is FileFormat.JSON and not file.is_compressed
        return lines and offset < file.size

    def _end_of_rows(self, file: DataFile, read: PartRead, growing: bool) -> int | None:
        """Position behind the last complete row of a growing CSV file; None: read all of it."""
        if not growing or file.is_compressed or self._format(file.name) is not FileFormat.CSV:
            return None
        seen = read.seen
        return end_of_rows(file, seen.size - seen.left if seen is not None and seen.whole else 0)

    def _rest_of(
        self,
        file: DataFile,
        read: PartRead,
        schema: Schema,
        rejects: StreamRejects,
        before: int,
        growing: bool,
    ) -> Iterator[Chunk]:
        """Read a file without the rows that have been read."""
        left = read.rows
        if self._format(file.name) is FileFormat.JSON:
            left -= read.restart_rows
            if read.restart is not None:
                rows, readable = read.restart.rows, read.restart_rows
                rejects.log.assume_bad_rows(rejects.stream, file.name, rows, readable)
            blocks = read_json_blocks(file, schema, rejects, read.restart, growing)
        else:
            blocks = (
                (batch, None) for batch in _READERS[self._format(file.name)](file, schema, rejects)
            )
        began = before
        for batch, restart in blocks:
            rows, position = batch.num_rows, before + file.meter.position
            if left < rows:
                yield Chunk(batch.slice(left), file.name, position, began, restart)
            left, began = max(0, left - rows), position

    def _check_unfinished(self, files: list[DataFile], known: Mapping[str, PartRead]) -> None:
        """Refuse that a file has gone before all of it has been read."""
        there = {file.name for file in files}
        for name, read in known.items():
            if not read.whole and name not in there:
                raise SourceError(
                    f"{name} has been read as far as row {read.rows:,}, and is gone",
                    expected="the file, because its other rows have not been read yet",
                    hint="put it back",
                )

    def files(self) -> list[tuple[str, str, str]]:
        """Path, name and format of every file, for readers elsewhere."""
        named: dict[str, str] = {}  # directories as they are named, and where they are

        def place(name: str) -> str:
            head, _, tail = name.rpartition("/")
            if head not in named:
                named[head] = str((directory / head).resolve()) if name[:1] != "/" or head else ""
            return f"{named[head]}/{tail}"

        directory = self._directory
        return [
            (
                place(found.name)
                if found.is_regular
                else str(self._file(found, directory).path.resolve()),
                found.name,
                self._format(found.name).value,
            )
            for found in self._found()
        ]

    @property
    def is_refused(self) -> bool:
        """Whether the pattern leads out of the allowed places, through current links."""
        try:
            self._found()
        except NotAllowedError:
            return True
        except SourceError:
            pass  # which is said when it is read
        return False

    @property
    def may_come(self) -> bool:
        """Whether files that match may appear: it is a pattern, and the directory that it begins in
        exists."""
        return has_magic(self.pattern) and without_magic(self._directory / self.pattern)[0].is_dir()

    def reads(self, path: Path) -> bool:
        """Whether a file is one of the source, or would be if it existed."""
        named = self._directory / self.pattern
        resolved = path.resolve()
        if named.resolve() == resolved:
            return True
        if not has_magic(self.pattern) or _exists(named):
            return False
        beginning, pattern = without_magic(named)
        return resolved.is_relative_to(beginning) and goes_by(
            resolved.relative_to(beginning).parts, pattern
        )

    def few_parts(self, most: int) -> list[str] | None:
        """Names of the files; None if there are more than `most`, or if it takes long to find them
        all."""
        found, whole = self._some(most)
        return [each.name for each in found] if whole else None

    def size_expected(self, most: int) -> tuple[int, bool]:
        """Size in bytes of up to so many files, and whether these are all."""
        directory, (found, whole) = self._directory, self._some(most)
        return sum(self._file(each, directory).size for each in found), whole

    def _some(self, most: int) -> tuple[list[FoundPath], bool]:
        looked = 0

        def enough() -> bool:
            nonlocal looked
            looked += 1
            return looked > _LISTED

        if not has_magic(self.pattern) or _exists(self._directory / self.pattern):
            return self._found(), True
        some: dict[str, FoundPath] = {}
        for each in self._matching(enough):
            some[each.name] = each
            if len(some) > most:
                break
        whole = looked <= _LISTED and len(some) <= most
        return self._checked(some)[:most], whole

    @property
    def _directory(self) -> Path:
        return self.base or Path.cwd()

    def _file(self, found: FoundPath, directory: Path) -> DataFile:
        """Make the file to read; where not all files are allowed, under the path that links lead
        to."""
        path = Path(os.path.join(directory, found.name))  # noqa: PTH118 (much faster)
        if self.allowed is None:
            return DataFile(path, found.name, row_limit=self.row_limit)
        resolved = resolve(path)
        if resolved is None:
            raise refuse_file(self.allowed, self.pattern)
        return DataFile(resolved, found.name, allowed=self.allowed, row_limit=self.row_limit)

    def _checked(self, found: Mapping[str, FoundPath]) -> list[FoundPath]:
        """Sort the files, and refuse pipes and devices before anything is read."""
        files, directory = [each for _, each in sorted(found.items())], self._directory
        for each in files:
            if not each.is_regular:
                self._file(each, directory).refuse_strange()
        return files

    def _found(self, attention: Attention | None = None) -> list[FoundPath]:
        """Find the files, sorted by name, as far as possible before the reader leaves; an error if
        there are none."""
        if self.allowed is not None and not self.allowed.pattern(self._directory, self.pattern):
            raise refuse_file(self.allowed, self.pattern)
        named = self._directory / self.pattern  # an absolute pattern stays as it is
        if self.pattern and _exists(named):
            if named.is_dir():
                raise SourceError(
                    f"{self.pattern} is a directory",
                    expected="a file, or a pattern for the files in it",
                    hint=f"'{self.pattern.rstrip('/')}/*.csv'",
                )
            return self._checked({self.pattern: FoundPath(self.pattern, False, False)})
        bell = Bell() if attention is None else attention.bell
        found: dict[str, FoundPath] = {}
        if has_magic(self.pattern):
            found = {each.name: each for each in self._matching(lambda: bell.closed)}
        if not found and not bell.closed:
            raise self._no_match()
        return self._checked(found)

    def _matching(self, stopped: Callable[[], bool]) -> Iterator[FoundPath]:
        allowed = self.allowed

        def check_link(path: str) -> None:
            if allowed is not None and not allowed.file(Path(path)):
                raise refuse_file(allowed, self.pattern)

        for found in matching(self.pattern, self._directory, stopped, check_link):
            if not _is_passed_over(found):
                yield found

    def _format(self, name: str) -> FileFormat:
        found = self.format or format_of(name)
        if found is None:
            raise SourceError(
                f"{name}: its ending does not tell its format",
                expected=f"one of {', '.join(_ENDINGS)}, or a FORMAT"
                f" ({', '.join(each.value for each in FileFormat)})",
                hint="FORMAT CSV",
            )
        if found is FileFormat.PARQUET and self.row_limit is not None:
            raise SourceError(f"{name} is a Parquet file, whose rows have no ROW LIMIT")
        return found

    def _no_match(self) -> NoFilesError:
        directory, prefix = self._directory, ""
        for piece in Path(self.pattern).parts[:-1]:  # as far as the pattern leads
            if not (directory / piece).is_dir():
                break
            directory, prefix = directory / piece, str(Path(prefix, piece))
        try:
            entries = list(islice(directory.iterdir(), _LISTED))
        except OSError:
            entries = []
        entries = [entry for entry in entries if entry.is_file()] or entries
        names = sorted(str(Path(prefix, entry.name)) for entry in entries)
        close = sorted(nearest(self.pattern, names, limit=_HINTED)) if self.allowed is None else []
        expected = "at least one file"
        if names and self.allowed is None and not close:
            more = ", …" * (len(names) > _HINTED)
            there = str(directory) if directory == self._directory else f"'{prefix}'"
            expected += f"; in {there} there are {', '.join(names[:_HINTED])}{more}"
        return NoFilesError(
            f"no file matches '{self.pattern}' in {self._directory}",
            expected=expected,
            hint=", ".join(close) or None,
        )


def _is_as_seen(read: PartRead, now: FileSeen) -> bool:
    """Whether nothing has changed since all of a file was read, or all but a last line."""
    return read.seen is not None and replace(read.seen, left=0) == now


def read_file(
    file: DataFile, file_format: str, schema: Schema, rejects: StreamRejects
) -> Iterator[pa.RecordBatch]:
    return _READERS[FileFormat(file_format)](file, schema, rejects)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a directory that may not be entered
        return False


def _is_passed_over(file: FoundPath) -> bool:
    """Whether a match is ignored: a pattern may match directories on its way; one that is named
    like data is a mistake."""
    if not file.is_directory:
        return False
    if format_of(file.name) is None:
        return True
    raise SourceError(
        f"{file.name} is a directory",
        expected="a file",
        hint=f"'{file.name}/*' for the files in it",
    )
