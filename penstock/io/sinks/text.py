"""Results as text, batch by batch: an aligned table, JSON lines, CSV."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterator
from typing import TextIO

import pyarrow as pa
import pyarrow.types as kinds

from penstock.errors import SinkError
from penstock.io.sinks.sink import Sink, column_json, column_texts

SCREENFUL = 1_000  # rows that a table looks at to find the widths of its columns
_PIECE = 4_096  # rows


def write_table(table: pa.Table, out: TextIO) -> None:
    _write_whole(table, TableWriter(out, screenful=table.num_rows + 1))


def write_json_lines(table: pa.Table, out: TextIO) -> None:
    _write_whole(table, JsonLinesWriter(out))


def write_csv(table: pa.Table, out: TextIO) -> None:
    _write_whole(table, CsvWriter(out))


def _write_whole(table: pa.Table, writer: Sink) -> None:
    writer.begin(table.schema)
    for batch in table.to_batches():
        writer.write(batch)
    writer.end()


class TableWriter:
    """Writes columns side by side, numbers to the right. They are as wide as the names and the
    first screenful of rows need; wider values later on stand out."""

    def __init__(self, out: TextIO, screenful: int = SCREENFUL) -> None:
        self._out = out
        self._screenful = screenful
        self._rows = 0
        self._held: list[list[str]] = []  # by column, until the widths are known
        self._widths: list[int] | None = None

    def begin(self, schema: pa.Schema) -> None:
        self._names = [_one_line(name) for name in schema.names]
        self._right = [
            kinds.is_integer(each) or kinds.is_floating(each) or kinds.is_decimal(each)
            for each in schema.types
        ]
        self._held = [[] for _ in self._names]

    def write(self, batch: pa.RecordBatch) -> None:
        for piece in _pieces(batch):
            self._rows += piece.num_rows
            for held, column in zip(self._held, piece.columns, strict=True):
                texts = column_texts(column)
                held += ["NULL" if text is None else _one_line(text) for text in texts]
            if self._widths is not None or self._rows >= self._screenful:
                self._show()

    def flush(self) -> None:
        if self._rows:
            self._show()
        self._out.flush()

    def end(self) -> None:
        self._show()
        self._out.write(f"({self._rows:,} row{'s' * (self._rows != 1)})\n")

    def _show(self) -> None:
        if self._widths is None:
            named = zip(self._names, self._held, strict=True)
            self._widths = [max(map(_width, [name, *texts])) for name, texts in named]
            self._held = [
                [name, "─" * width, *texts]
                for name, width, texts in zip(self._names, self._widths, self._held, strict=True)
            ]
        columns = [
            [_pad(text, width, right) for text in texts]
            for texts, width, right in zip(self._held, self._widths, self._right, strict=True)
        ]
        for line in zip(*columns, strict=True):
            self._out.write("  ".join(line).rstrip() + "\n")
        self._held = [[] for _ in self._names]


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into few rows at a time: as texts they take much more memory than as columns."""
    for begin in range(0, batch.num_rows, _PIECE):
        yield batch.slice(begin, _PIECE)


def _one_line(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _width(text: str) -> int:
    """Columns that a text takes on a terminal: two for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


class JsonLinesWriter:
    """Writes one object per row."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, schema: pa.Schema) -> None:
        """No-op: every line names its columns."""

    def write(self, batch: pa.RecordBatch) -> None:
        for piece in _pieces(batch):
            self._write(piece)

    def _write(self, batch: pa.RecordBatch) -> None:
        parts = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            key = column_json(pa.array([name]))[0]
            parts.append([f"{key}: {text}" for text in column_json(column)])
        self._out.writelines("{" + ", ".join(row) + "}\n" for row in zip(*parts, strict=True))

    def flush(self) -> None:
        self._out.flush()

    def end(self) -> None:
        """No-op."""


class CsvWriter:
    """Writes a header, then a line per row; NULL is empty, an empty text is two quotes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._header: list[str] | None = None  # until it is written

    def begin(self, schema: pa.Schema) -> None:
        for field in schema:
            if pa.types.is_nested(field.type):
                raise SinkError(
                    f"CSV has no place for {field.name}, which is {field.type}",
                    hint="JSON lines or Parquet, or CAST(… AS STRING)",
                )
        self._header = schema.names

    def write(self, batch: pa.RecordBatch) -> None:
        self._head()
        for piece in _pieces(batch):
            columns = [[_csv_cell(text) for text in column_texts(each)] for each in piece.columns]
            rows = zip(*columns, strict=True)
            self._out.writelines((",".join(row) or _NOTHING) + "\n" for row in rows)

    def flush(self) -> None:
        self._out.flush()

    def end(self) -> None:
        self._head()

    def _head(self) -> None:
        if self._header is not None:
            csv.writer(self._out, lineterminator="\n").writerow(self._header)
            self._header = None


_NOTHING = '""'  # a NULL alone in its row: an empty line would not be read as one


def _csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    if text == "" or any(char in text for char in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
