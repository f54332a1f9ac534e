"""The results of a script in one format, to standard output or a file that appears at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TextIO, cast

import pyarrow as pa

from penstock.errors import SinkError
from penstock.io.durable_files import make_room
from penstock.io.formats.parquet import ParquetWriter
from penstock.io.sinks.sink import Sink
from penstock.io.sinks.text import CsvWriter, JsonLinesWriter, TableWriter


class OutputFormat(StrEnum):
    """Formats in which results are written."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


PARTIAL = ".partial"  # the ending of results that were stopped
ONE_RESULT = (OutputFormat.CSV, OutputFormat.PARQUET)
_TEXT_WRITERS: dict[OutputFormat, Callable[[TextIO], Sink]] = {
    OutputFormat.TABLE: TableWriter,
    OutputFormat.JSONL: JsonLinesWriter,
    OutputFormat.CSV: CsvWriter,
}
_BY_ENDING = {
    ".jsonl": OutputFormat.JSONL,
    ".json": OutputFormat.JSONL,
    ".ndjson": OutputFormat.JSONL,
    ".csv": OutputFormat.CSV,
    ".parquet": OutputFormat.PARQUET,
    ".pq": OutputFormat.PARQUET,
    ".txt": OutputFormat.TABLE,
}


def format_by_ending(path: Path, hint: str | None = None) -> OutputFormat:
    """Format by the ending of a file."""
    found = _BY_ENDING.get(path.suffix.lower())
    if found is None:
        raise SinkError(
            f"the ending of {path} does not tell a format",
            expected=f"one of {', '.join(_BY_ENDING)}",
            hint=hint,
        )
    return found


def format_for(output: Path | None) -> OutputFormat:
    """Default format of rows: by the ending of the output; a table for standard output and for a
    path without ending, such as a device or a pipe."""
    if output is None or not output.suffix:
        return OutputFormat.TABLE
    return format_by_ending(output, f"--format {'|'.join(OutputFormat)}")


def cannot_write(path: Path, shown: Path | None, error: OSError) -> SinkError:
    missing = isinstance(error, FileNotFoundError) and not path.parent.exists()
    hint = f"mkdir -p {(shown or path).parent}" if missing else make_room(path, error)
    return SinkError(f"cannot write {shown or path}: {error.strerror}", hint=hint)


class Output:
    """Takes several results, which may grow at the same time, and writes them one after the other.
    A file is written under another name and renamed when all went well, so no reader sees half of
    it.

    >>> with Output(OutputFormat.CSV, None) as output:
    ...     output.write(pa.table({"a": [1, None], "b": ["x", ""]}))
    a,b
    1,x
    ,""
    """

    def __init__(self, output_format: OutputFormat, path: Path | None) -> None:
        if path is None and output_format is OutputFormat.PARQUET:
            raise SinkError("Parquet is not for the terminal", hint="--output result.parquet")
        self._format = output_format
        self._shown = path
        self._path = path.resolve() if path is not None else None  # through links
        self._file: IO[Any] | None = None
        self._results: list[Result] = []
        self._stopped, self._kept = False, True

    def __enter__(self) -> Output:
        if self._path is None:
            if sys.stdout is None:
                raise SinkError("standard output is closed", hint="--output FILE")
            self._file = sys.stdout
            return self
        binary = self._format is OutputFormat.PARQUET
        try:
            if self._direct:
                encoding = None if binary else "utf-8"
                self._file = self._path.open("wb" if binary else "w", encoding=encoding)
                return self
            self._file = tempfile.NamedTemporaryFile(
                "wb" if binary else "w",
                dir=self._path.parent,
                prefix=f".{self._path.name}.",
                delete=False,
                encoding=None if binary else "utf-8",
            )
        except OSError as error:
            raise cannot_write(self._path, self._shown, error) from None
        return self

    @property
    def _direct(self) -> bool:
        """Whether the output is a pipe or device, which is written to, not replaced."""
        return self._path is not None and self._path.exists() and not self._path.is_file()

    def write(self, table: pa.Table) -> None:
        """Write a whole result."""
        result = self.result()
        result.begin(table.schema)
        for batch in table.to_batches():
            result.write(batch)
        result.end()

    def result(self) -> Result:
        """Open one more result, behind those before it."""
        assert self._file is not None
        if self._results and self._format in ONE_RESULT:
            raise SinkError(
                f"{self._format.value} holds one result, and there are several",
                hint="--format jsonl, or one SELECT per script",
            )
        if all(result.ended for result in self._results):
            made = Result(self, self._file, None, self._format)
        else:
            spool = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (the result does)
            made = Result(self, spool, spool, self._format)
        self._results.append(made)
        return made

    @property
    def for_readers(self) -> bool:
        return self._path is None and self._format is OutputFormat.TABLE

    def move_on(self) -> None:
        """Append the results that had to wait for those before them."""
        for result in self._results:
            if not result.ended:
                return
            result.append_to(cast(TextIO, self._file))

    def stop(self, keep: bool) -> None:
        """Mark the results as incomplete: keep them under their other name, or not at all."""
        self._stopped, self._kept = True, keep

    @property
    def place(self) -> str:
        """The place where the rows went, for a message."""
        if self._shown is None:
            return "standard output"
        return f"{self._shown}{PARTIAL}" if self._stopped and not self._direct else str(self._shown)

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Turn errors of the system into errors that name the place."""
        try:
            yield
        except BrokenPipeError:
            raise  # whoever reads has had enough, which is no failure
        except OSError as error:
            if self._path is None:
                # what is left in the buffer cannot be written either, and would fail at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            where = self._shown or "to standard output"
            hint = make_room(self._path, error) if self._path is not None else None
            raise SinkError(f"cannot write {where}: {error.strerror}", hint=hint) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._file is not None
        for result in self._results:
            result.let_go()
        if self._path is None:
            with self.failures():
                self._file.flush()
            return
        if self._direct:
            with self.failures():
                self._file.close()
            return
        written = Path(self._file.name)
        try:
            if error is None and self._kept:
                with self.failures():
                    self._publish(written)
        finally:
            with contextlib.suppress(OSError):
                self._file.close()
            with contextlib.suppress(FileNotFoundError):
                written.unlink()

    def _publish(self, written: Path) -> None:
        """Move a file that is complete to its place."""
        assert self._file is not None
        assert self._path is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        # a temporary file is readable by its owner alone; give what open() would have given
        mask = os.umask(0)
        os.umask(mask)
        place = self._path.with_name(self._path.name + PARTIAL) if self._stopped else self._path
        mode = place.stat().st_mode if place.exists() else 0o666 & ~mask
        written.chmod(stat.S_IMODE(mode))
        written.replace(place)


class Result:
    """One result of an output, written straight away or kept in a temporary file until those before
    it are complete."""

    def __init__(
        self, output: Output, file: IO[Any], spool: IO[str] | None, output_format: OutputFormat
    ) -> None:
        self._output = output
        self._file = file
        self._spool = spool
        self._parquet: ParquetWriter | None = None
        self._writer: Sink
        if output_format is OutputFormat.PARQUET:
            self._writer = self._parquet = ParquetWriter(file)
        else:
            self._writer = _TEXT_WRITERS[output_format](cast(TextIO, file))
        self.ended = False

    def begin(self, schema: pa.Schema) -> None:
        with self._output.failures():
            self._writer.begin(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        with self._output.failures():
            self._writer.write(batch)

    def flush(self) -> None:
        with self._output.failures():
            self._writer.flush()

    def end(self) -> None:
        with self._output.failures():
            self._writer.end()
            self.ended = True
            self._output.move_on()

    def show(self, text: str, table: pa.Table) -> None:
        """Write a text: verbatim to a terminal, as a table otherwise."""
        if not self._output.for_readers:
            self.begin(table.schema)
            for batch in table.to_batches():
                self.write(batch)
            self.end()
            return
        with self._output.failures():
            self._file.write(f"{text}\n")
            self.ended = True
            self._output.move_on()

    def append_to(self, file: TextIO) -> None:
        """Move what has been kept to the end of a file."""
        if self._spool is not None:
            self._spool.seek(0)
            shutil.copyfileobj(self._spool, file)
            self._spool.close()
            self._spool = None

    def let_go(self) -> None:
        if self._spool is not None:
            self._spool.close()
        if self._parquet is not None and not self.ended:
            with contextlib.suppress(OSError):
                self._parquet.abandon()
