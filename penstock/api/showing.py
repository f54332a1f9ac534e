"""How queries and their answers are shown: as tables, in notebooks, as other frames."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from textwrap import shorten
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.model.schema import Schema
from penstock.sinks.text import write_table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_LINE = 60  # characters of a query that stand for it


def shortened(text: str) -> str:
    """A query in one line.

    >>> shortened("SELECT a\\nFROM s")
    'SELECT a FROM s'
    """
    return shorten(text, _LINE, placeholder=" …")


def show(answer: pa.Table, limit: int) -> None:
    """Print the first rows of an answer."""
    write_table(answer.slice(0, max(0, limit)), sys.stdout)
    if answer.num_rows > limit:
        print("there are more")


def show_first(batches: Iterator[pa.RecordBatch], schema: pa.Schema, limit: int) -> None:
    """Print the first rows that are released, and wait for no more than those."""
    kept: list[pa.RecordBatch] = []
    missing = max(0, limit)
    while missing and (batch := next(batches, None)) is not None:
        kept.append(batch.slice(0, missing))
        missing -= kept[-1].num_rows
    write_table(pa.Table.from_batches(kept, schema), sys.stdout)
    if not missing:
        print("there may be more")


def html_of(name: str | None, text: str, schema: Schema, engine: str) -> str:
    title = " ".join(["penstock.Query", *([escape(name)] if name else []), f"on {escape(engine)}"])
    rows = "".join(
        f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td></tr>"
        for field in schema
    )
    asked = f"<pre>{escape(text.strip())}</pre>" if text.strip() else ""
    head = "<tr><th>column</th><th>type</th></tr>"
    return f"<div><strong>{title}</strong>{asked}<table>{head}{rows}</table></div>"


def to_pandas(table: pa.Table) -> pd.DataFrame:
    try:
        return table.to_pandas()
    except ImportError as error:
        raise _missing("pandas", "to_pandas") from error


def to_polars(table: pa.Table) -> pl.DataFrame:
    try:
        import polars
    except ImportError as error:
        raise _missing("polars", "to_polars") from error
    return polars.DataFrame(table)


def _missing(library: str, method: str) -> PenstockError:
    return PenstockError(
        f"{method} needs {library}, which is not installed",
        hint=f"pip install {library}; collect() gives an Arrow table without it",
    )
