"""Columns of a result as text: one place that says how every type is written out."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa

from penstock.model.duration import DAY, format_duration
from penstock.model.types import Kind, Type, format_timestamp, from_arrow, to_python


def column_texts(column: pa.ChunkedArray) -> list[str | None]:
    """The values as plain text; None for NULL."""
    sql_type = from_arrow(column.type)
    assert sql_type is not None
    return [
        None if value is None else _text(value, sql_type) for value in to_python(column, sql_type)
    ]


def column_json(column: pa.ChunkedArray) -> list[str]:
    """The values as JSON: numbers as numbers, NULL as null, what JSON has no number for as text."""
    sql_type = from_arrow(column.type)
    assert sql_type is not None
    values = to_python(column, sql_type)
    match sql_type.kind:
        case Kind.INT | Kind.BIGINT | Kind.DECIMAL:
            return ["null" if v is None else _text(v, sql_type) for v in values]
        case Kind.DOUBLE:
            return [_json_double(v) for v in values]
        case Kind.BOOLEAN:
            return ["null" if v is None else "true" if v else "false" for v in values]
        case _:
            return ["null" if v is None else _quoted(_text(v, sql_type)) for v in values]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json_double(value: float | None) -> str:
    if value is None:
        return "null"
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _text(value: Any, sql_type: Type) -> str:
    match sql_type.kind:
        case Kind.STRING:
            return str(value)
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.TIMESTAMP:
            return format_timestamp(value)
        case Kind.DATE:
            return format_timestamp(value * DAY)[: -len("T00:00:00.000000Z")]
        case Kind.INTERVAL:
            return format_duration(value)
        case Kind.BINARY:
            return bytes(value).hex()
        case Kind.DECIMAL:
            return f"{value:f}"
        case Kind.DOUBLE:
            return repr(value)
        case _:
            return str(value)
