"""The queries of Nexmark on an engine, and over the whole input in DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa

import penstock as ps
from benchmarks.nexmark.generator import SCHEMAS, Events

FOLDER = Path(__file__).parent
NAMES = sorted((path.stem for path in (FOLDER / "queries").glob("*.sql")), key=lambda q: int(q[1:]))
SIDE_INPUT = [{"key": key, "value": f"side {key}"} for key in range(100)]
Source = Callable[[str, pa.Table], object]


def count_char(text: str, letter: str) -> int:
    return text.count(letter)


def text_of(name: str) -> str:
    return (FOLDER / "queries" / f"{name}.sql").read_text(encoding="utf-8")


def database(
    db: ps.Database, events: Events, delay: float = 0.0, source: Source | None = None
) -> ps.Database:
    """The streams, the table and the function that the queries ask for; `source` makes something
    else of the tables that streams are read from."""
    for name, table in events._asdict().items():
        data = table if source is None else source(name, table)
        progress = ps.progress("date_time", delay=f"{round(delay * 1e6)} microseconds")
        schema = None if hasattr(data, "isStreaming") else SCHEMAS[name]
        db.stream(name, data, schema=schema, progress=progress)
    db.table("side_input", SIDE_INPUT, schema="key BIGINT, value STRING")
    db.function("count_char", count_char, returns="BIGINT", args=["STRING", "STRING"], by_row=True)
    return db


def expected(name: str, events: Events) -> pa.Table:
    """What DuckDB says over the whole input."""
    return in_duckdb(events).sql(text_for_duckdb(name)).to_arrow_table()


def text_for_duckdb(name: str) -> str:
    """The same text, or one of its own where windows have no name there."""
    own = FOLDER / "expected" / f"{name}.sql"
    return own.read_text(encoding="utf-8") if own.exists() else _translated(text_of(name))


def in_duckdb(events: Events) -> duckdb.DuckDBPyConnection:
    found = duckdb.connect(config={"threads": 1})
    for name, table in events._asdict().items():
        found.register(name, _without_zones(table))
    found.register("side_input", pa.Table.from_pylist(SIDE_INPUT))
    found.execute("CREATE MACRO count_char(s, c) AS length(s) - length(replace(s, c, ''))")
    return found


def _translated(text: str) -> str:
    text = text.replace("EMIT CHANGES", "")
    text = re.sub(r"date_format\((\w+), 'yyyy-MM-dd'\)", r"strftime(\1, '%Y-%m-%d')", text)
    return re.sub(r"date_format\((\w+), 'HH:mm'\)", r"strftime(\1, '%H:%M')", text)


def _without_zones(table: pa.Table) -> pa.Table:
    """Times as DuckDB knows them without an extension."""
    schema = [
        pa.field(each.name, pa.timestamp("us") if pa.types.is_timestamp(each.type) else each.type)
        for each in table.schema
    ]
    return table.cast(pa.schema(schema))


def plain(table: pa.Table) -> list[tuple[object, ...]]:
    """Rows that can be compared, sorted; doubles with as many digits as both are sure of."""
    columns = [_plain(column) for column in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def _plain(column: pa.ChunkedArray) -> list[object]:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    if pa.types.is_floating(column.type):
        return [None if each is None else float(f"{each:.12g}") for each in column.to_pylist()]
    if pa.types.is_decimal(column.type):
        return [None if each is None else int(each) for each in column.to_pylist()]
    return column.to_pylist()
