"""Results as text: an aligned table, JSON lines, CSV."""

from __future__ import annotations

import csv
import unicodedata
from typing import TextIO

import pyarrow as pa
import pyarrow.types as kinds

from penstock.sinks.cells import column_json, column_texts


def write_table(table: pa.Table, out: TextIO) -> None:
    """Columns side by side, numbers to the right, as wide as they need to be."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        texts = ["NULL" if text is None else _one_line(text) for text in column_texts(column)]
        name = _one_line(name)
        width = max(map(_width, [name, *texts]))
        right = kinds.is_integer(column.type) or kinds.is_floating(column.type)
        right = right or kinds.is_decimal(column.type)
        columns.append([_pad(text, width, right) for text in [name, "─" * width, *texts]])
    for line in zip(*columns, strict=True):
        out.write("  ".join(line).rstrip() + "\n")
    rows = table.num_rows
    out.write(f"({rows:,} row{'s' * (rows != 1)})\n")


def _one_line(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _width(text: str) -> int:
    """How many places a text takes on a terminal: wide characters two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def write_json_lines(table: pa.Table, out: TextIO) -> None:
    """One object per row."""
    parts = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        key = column_json(pa.chunked_array([[name]]))[0]
        parts.append([f"{key}: {text}" for text in column_json(column)])
    for row in zip(*parts, strict=True):
        out.write("{" + ", ".join(row) + "}\n")


def write_csv(table: pa.Table, out: TextIO) -> None:
    """A header, then a line per row; NULL is nothing, an empty text is two quotes."""
    csv.writer(out, lineterminator="\n").writerow(table.column_names)
    columns = [[_csv_cell(text) for text in column_texts(column)] for column in table.columns]
    for row in zip(*columns, strict=True):
        out.write((",".join(row) or _NOTHING) + "\n")


_NOTHING = '""'  # a NULL alone in its row: an empty line would not be read as one


def _csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    if text == "" or any(char in text for char in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
