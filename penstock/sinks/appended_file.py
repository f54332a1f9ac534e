"""A file that a run with a checkpoint goes on with: cut back to what was saved, then appended to.

After a kill the file may hold rows that the state of the run does not know of.  They are cut off
before the first new ones are written, because the run makes them again.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from penstock.durable import sync_directory
from penstock.errors import SinkError
from penstock.sinks.ledger import Ledger, Mark
from penstock.sinks.output import OutputFormat, cannot_write
from penstock.sinks.sink import Sink
from penstock.sinks.text import CsvWriter, JsonLinesWriter

_WRITERS: dict[OutputFormat, Callable[[TextIO], Sink]] = {
    OutputFormat.JSONL: JsonLinesWriter,
    OutputFormat.CSV: CsvWriter,
}
_ENDING = 4_096  # bytes that tell one file from another


class AppendedFile:
    """Rows are written when an epoch is committed."""

    def __init__(self, path: Path, output_format: OutputFormat, ledger: Ledger, name: str) -> None:
        if output_format not in _WRITERS:
            raise SinkError(
                f"{path}: a {output_format.value} file cannot be gone on with",
                expected="a .jsonl or .csv file, or a directory, because there is a checkpoint",
                hint=f"--output {path.with_suffix('')}/",
            )
        self._path = path.resolve()
        self._shown = path
        self._format = output_format
        self._ledger = ledger
        self._name = name
        self._columns: list[str] | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._length: int | None = None  # None: not cut back yet
        self._check()

    def _check(self) -> None:
        """Whether the file is what this run left there."""
        place = str(self._path)
        size = self._path.stat().st_size if self._path.exists() else 0
        if size and self._ledger.place(self._name) not in (None, place) and self._has_moved(size):
            self._ledger.move(self._name, place)
        marks = self._ledger.marks(self._name, place)
        if not marks and size:
            elsewhere = self._ledger.place(self._name)
            raise SinkError(
                f"{self._shown} is there already, and this checkpoint knows nothing of it"
                + (f": its rows are in {elsewhere}" if elsewhere else ""),
                expected="a file that the checkpoint has written, or none",
                hint="another --output, or move the file away",
            )
        if marks:
            self._check_size(size, marks[0].length)

    def _has_moved(self, size: int) -> bool:
        """Whether this is the file that was elsewhere when the checkpoint was saved: it ends, where
        the checkpoint says that it ended, with the same bytes."""
        marks = [mark for mark in self._ledger.all_marks(self._name) if mark.length]
        return bool(marks) and all(
            mark.length <= size and mark.ending == self._ending(mark.length) for mark in marks
        )

    def _ending(self, length: int) -> str:
        """A checksum of the last bytes before a place in the file."""
        begin = max(0, length - _ENDING)
        with self._path.open("rb") as file:
            file.seek(begin)
            return hashlib.sha256(file.read(length - begin)).hexdigest()

    def _check_size(self, size: int, length: int) -> None:
        if size < length:
            raise SinkError(
                f"{self._shown} had {length:,} bytes when the checkpoint was saved, and"
                f" has {size:,} now",
                expected="the file as it was left",
                hint="put it back, or name another --output, where the rows go on",
            )

    def begin(self, schema: pa.Schema) -> None:
        known = self._ledger.columns(self._name, str(self._path))
        if self._format is OutputFormat.CSV and known is not None and known != schema.names:
            raise SinkError(
                f"{self._shown} has the columns {', '.join(known)},"
                f" and the rows have {', '.join(schema.names)}",
                expected="the same columns in the same order",
                hint="another --output",
            )
        self._columns = schema.names

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)

    def flush(self) -> None:
        """Rows appear when they are committed."""

    def end(self) -> None:
        """Nothing is open."""

    def prepare(self, epoch: int) -> None:
        """Cut the file back to what was saved before an epoch.  Of a new file the ledger has to be
        written before the file is, so that nobody takes its rows for somebody else's after a
        crash."""
        try:
            if self._length is None:
                self._length = self._cut_back(epoch)
        except OSError as error:
            raise self._failure(error) from None

    def commit(self, epoch: int) -> None:
        """Bring the rows of an epoch to disk."""
        if self._length is None:
            self.prepare(epoch)
            self._ledger.write()
        assert self._length is not None
        try:
            content = self._content()
            if content:
                with self._path.open("ab") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            length = self._length + len(content)
            marks = self._ledger.marks(self._name, str(self._path))
            if any(mark.length != length for mark in marks):  # otherwise they say it all
                mark = Mark(epoch, length, self._ending(length))
                self._ledger.note(self._name, str(self._path), mark, self._columns)
        except OSError as error:
            raise self._failure(error) from None
        self._waiting = []
        self._length = length

    def _failure(self, error: OSError) -> SinkError:
        return cannot_write(self._path, self._shown, error)

    def _cut_back(self, epoch: int) -> int:
        marks = self._ledger.marks(self._name, str(self._path))
        known = [mark for mark in marks if mark.epoch < epoch]
        if marks and not known:
            raise SinkError(
                f"{self._shown} is ahead of the checkpoint, which has been set back",
                expected="the file as it was when that checkpoint was saved",
                hint="put back a copy of the file as well, or name another --output",
            )
        if not marks:  # so that this epoch, too, can come again
            self._ledger.note(self._name, str(self._path), Mark(epoch - 1, 0))
        length = known[-1].length if known else 0
        if not self._path.exists():
            self._check_size(0, length)
            self._path.touch()
            sync_directory(self._path.parent)
        self._check_size(self._path.stat().st_size, length)
        os.truncate(self._path, length)
        return length

    def _content(self) -> bytes:
        text = io.StringIO()
        writer = _WRITERS[self._format](text)
        if self._columns is not None and not self._length:
            writer.begin(pa.schema([(name, pa.null()) for name in self._columns]))
        for batch in self._waiting:
            writer.write(batch)
        if self._columns is not None:
            writer.end()  # the header stands there even if no row ever comes
        return text.getvalue().encode()
