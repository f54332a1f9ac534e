"""What the tests of the reference engine share: running a query, and rows as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import settings

import penstock as ps

Row = tuple[Any, ...]

# Examples differ in size; how long one takes says nothing.
examples = settings(deadline=None, max_examples=50)


class Stream(NamedTuple):
    schema: str
    rows: Sequence[Any]
    progress: Any = None


class Table(NamedTuple):
    schema: str
    rows: Sequence[Any]


def counted(schema: str, progress: Any = None) -> str:
    """The schema for rows of plain values, where times are integers; what is stamped is not read.

    >>> counted("k INT, ts TIMESTAMP, d DATE")
    'k INT, ts TIMESTAMP EPOCH MICROSECONDS, d DATE EPOCH DAYS'
    """
    stamped = None
    if progress is not None and progress.clause.timestamps != "EXTERNAL":
        stamped = f"{progress.attribute} TIMESTAMP"
    columns = []
    for column in schema.split(", "):
        if column != stamped:
            column = re.sub(r"\bTIMESTAMP\b(?! EPOCH)", "TIMESTAMP EPOCH MICROSECONDS", column)
            column = re.sub(r"\bDATE\b(?! EPOCH)", "DATE EPOCH DAYS", column)
        columns.append(column)
    return ", ".join(columns)


def database(clock: Any = None, **streams: Stream | Table) -> ps.Database:
    db = ps.connect("reference", clock=clock)
    for name, stream in streams.items():
        if isinstance(stream, Table):
            db.table(name, stream.rows, schema=counted(stream.schema))
            continue
        schema = counted(stream.schema, stream.progress)
        db.stream(name, stream.rows, schema=schema, progress=stream.progress)
    return db


def ask(sql: str, **streams: Stream | Table) -> ps.Query:
    query = database(**streams).sql(sql)
    assert isinstance(query, ps.Query)
    return query


def value(expression: str, **columns: tuple[str, Any]) -> Any:
    """An expression on one tuple, whose columns are given as (type, value)."""
    schema = ", ".join(f"{name} {sql_type}" for name, (sql_type, _) in columns.items())
    row = {name: given for name, (_, given) in columns.items()}
    query = ask(f"SELECT {expression} AS y FROM s", s=Stream(schema or "none INT", [row]))
    return plain(query.collect().column("y"))[0]


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Times as integers: `datetime` ends at the year 9999."""
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_date(column.type):
        return column.cast(pa.int32()).to_pylist()
    return column.to_pylist()


def tuples(table: pa.Table) -> list[Row]:
    """The rows in the order they came, as tuples."""
    columns = [plain(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def bag(rows: Iterable[Row]) -> list[Row]:
    """The rows in an order of their own, so that two bags of rows can be compared.

    `repr` tells -0.0 from 0.0 and every other double from its neighbour, and makes NaN equal NaN.
    """
    return sorted((tuple(map(_exactly, row)) for row in rows), key=repr)


def _exactly(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value!r} DOUBLE"
    if isinstance(value, Decimal):
        return f"{value:f} DECIMAL"
    return value
