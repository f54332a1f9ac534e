"""Penstock's own sources as Spark streams: a directory of small files that say what to read.

Every file of the feed is one micro-batch of a stream: some data files, some rows of an Arrow file,
a promise, or the end of the stream.  Tasks read the data itself, with the same readers as the local
engine, so rows that do not fit are set aside by the same rules.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from penstock.errors import CheckpointError, SourceError
from penstock.model.schema import Schema
from penstock.sources.checksums import rows_checksum, text_checksum
from penstock.sources.files import read_file
from penstock.sources.formats.data_file import DataFile
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk
from penstock.spark.run.outcome import rejects_of

_RESTORE = "restore the checkpoint, or delete its directory to begin anew"
_HEAD = "head"  # the file that says how many portions there are


class FileToRead(NamedTuple):
    path: str
    name: str
    format: str
    size: int
    row_limit: int | None = None

    def check(self) -> None:
        """Before it is read; if it is gone, whoever reads it says so."""
        try:
            size = Path(self.path).stat().st_size
        except OSError:
            return
        self.check_size(size)

    def check_size(self, size: int) -> None:
        """What was read, or is to be read, must not change any more."""
        if size != self.size:
            raise SourceError(
                f"{self.name} has changed: it had {self.size:,} bytes when it was handed to the"
                f" query, and has {size:,} now",
                expected="files that stay as they are",
                hint="new rows in new files",
            )


@dataclass(frozen=True, slots=True)
class Portion:
    """What to read next: files, or rows of an Arrow file in the directory of the feed; or a promise
    (no later tuple is below it), or no more.  `joins` are the files of this portion and of those
    that were made with it, if each is a sub-source: none is a newcomer to the others.  `rows` and
    `rejected` count those of the source up to here, where it is not made of files."""

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
                hint="another --checkpoint, or delete the directory to begin anew",
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
            self._tell(bad, rejects)
            for batch in rows.to_batches():
                yield Chunk(batch)

    @property
    def first(self) -> bool:
        """Whether it is the first one of its Arrow file: it tells of the rejects."""
        return self.begin == 0

    @property
    def rows_before(self) -> int:
        return self.rows - (self.end - self.begin)

    def _check(self, rows: pa.Table, bad: pa.Table) -> None:
        tables = [rows, bad] if self.first else [rows]
        if self.checksum is not None and rows_checksum(*tables) != self.checksum:
            raise CheckpointError(f"{self.arrow} is not what was written there", hint=_RESTORE)

    def _tell(self, bad: pa.Table, rejects: StreamRejects) -> None:
        """Of the rows that could not be read, once; the numbers of others depend on them."""
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
    """The portions that Spark has read the texts of, in order."""
    texts = [text for batch in batches for text in batch.column(0).to_pylist()]
    return sorted(map(Portion.of, texts), key=lambda portion: portion.number)


class Feed:
    """The portions of one stream in a directory.  Spark reads them in the order of the times of the
    files, so those follow from the numbers, whatever became of them on the way."""

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
        """The file appears at once and whole, and is newer than all others."""
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
        """So that nobody can take portions away without a word."""
        written = self.directory / f".{_HEAD}"
        written.write_text(str(self.size), encoding="utf-8")
        written.replace(self.directory / _HEAD)

    def bytes_of(self, portions: int) -> int:
        """Of the files in the first portions."""
        return sum(file.size for each in self.written[:portions] for file in each.files)

    @property
    def rows(self) -> int:
        """How many rows of a source that is not made of files there are portions of."""
        return max((portion.rows for portion in self.written), default=0)

    @property
    def rejected(self) -> int:
        return max((portion.rejected for portion in self.written), default=0)

    @property
    def promised(self) -> int | None:
        promises = [each.promise for each in self.written if each.promise is not None]
        return max(promises, default=None)

    def promise(self, bound: int) -> bool:
        """No later tuple is below the bound; whether that is new."""
        if self.promised is not None and self.promised >= bound:
            return False
        self.add(Portion(self.size, promise=bound))
        return True

    def end(self) -> bool:
        """Nothing comes any more; whether that is new."""
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
