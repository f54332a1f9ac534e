"""The results of a script in one format, to standard output or a file that appears at the end."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TextIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import SinkError
from penstock.sinks.text import write_csv, write_json_lines, write_table


class OutputFormat(StrEnum):
    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


ONE_RESULT = (OutputFormat.CSV, OutputFormat.PARQUET)
_WRITERS = {
    OutputFormat.TABLE: write_table,
    OutputFormat.JSONL: write_json_lines,
    OutputFormat.CSV: write_csv,
}


class Output:
    """Takes results one after the other.  A file is written beside its place and moved there when
    all went well, so nobody ever reads half of it.

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
        self._written = False

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
            raise SinkError(f"cannot write {self._shown}: {error.strerror}") from None
        return self

    @property
    def _direct(self) -> bool:
        """Pipes and devices are written to, not replaced."""
        return self._path is not None and self._path.exists() and not self._path.is_file()

    def write(self, table: pa.Table) -> None:
        assert self._file is not None
        if self._written and self._format in ONE_RESULT:
            raise SinkError(
                f"{self._format.value} holds one result, and there are several",
                hint="--format jsonl, or one SELECT per script",
            )
        self._written = True
        with self._failures():
            if self._format is OutputFormat.PARQUET:
                pq.write_table(table, self._file)
            else:
                _WRITERS[self._format](table, cast(TextIO, self._file))

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn what the system says into an error that names the place."""
        try:
            yield
        except BrokenPipeError:
            raise  # whoever reads has had enough, which is no failure
        except OSError as error:
            if self._path is None:
                # what is left in the buffer cannot be written either, and would fail at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            where = self._shown or "to standard output"
            raise SinkError(f"cannot write {where}: {error.strerror}") from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._file is not None
        if self._path is None:
            with self._failures():
                self._file.flush()
            return
        if self._direct:
            with self._failures():
                self._file.close()
            return
        written = Path(self._file.name)
        try:
            if error is None:
                with self._failures():
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
        mode = self._path.stat().st_mode if self._path.exists() else 0o666 & ~mask
        written.chmod(stat.S_IMODE(mode))
        written.replace(self._path)
