"""Columns of a result as text."""

from __future__ import annotations

import pyarrow as pa

from penstock.model.plain_values import to_python
from penstock.model.texts import to_json, to_text
from penstock.model.types import Kind, from_arrow


def column_texts(column: pa.ChunkedArray) -> list[str | None]:
    """The values as plain text; None for NULL."""
    sql_type = from_arrow(column.type)
    assert sql_type is not None
    values = to_python(column, sql_type)
    if sql_type.kind is Kind.STRING:
        return values
    return [None if value is None else to_text(value, sql_type) for value in values]


def column_json(column: pa.ChunkedArray) -> list[str]:
    sql_type = from_arrow(column.type)
    assert sql_type is not None
    return [to_json(value, sql_type) for value in to_python(column, sql_type)]
