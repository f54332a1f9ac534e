"""Between Arrow columns and the plain Python values of `types.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.model.types import Kind, Type, nested_arrow


def to_python(column: pa.Array | pa.ChunkedArray, sql_type: Type) -> list[Any]:
    """The values of an Arrow column as plain Python values."""
    arrow = sql_type.arrow
    if column.type != arrow:
        column = column.cast(arrow)
    inside = _inside(sql_type)
    if inside != arrow:
        column = column.cast(inside)
    values: list[Any] = column.to_pylist()
    if not sql_type.is_nested:
        return values
    plain = _plain(sql_type)
    return [plain(value) for value in values]


def to_arrow(values: Sequence[Any], sql_type: Type) -> pa.Array:
    """The Arrow column of plain Python values: the inverse of `to_python`.

    >>> from penstock.model.types import BIGINT, struct_of
    >>> to_arrow([(7, None), None], struct_of([("a", BIGINT), ("b", BIGINT)])).to_pylist()
    [{'a': 7, 'b': None}, None]
    """
    if sql_type.is_nested:
        known = _for_arrow(sql_type)
        values = [known(value) for value in values]
    inside = _inside(sql_type)
    column = pa.array(values, inside)
    return column if inside == sql_type.arrow else column.cast(sql_type.arrow)


def _inside(sql_type: Type) -> pa.DataType:
    """The Arrow type with integers for times, wherever they are in it."""
    match sql_type.kind:
        case Kind.TIMESTAMP | Kind.INTERVAL:
            return pa.int64()
        case Kind.DATE:
            return pa.int32()
        case Kind.ARRAY | Kind.STRUCT | Kind.MAP:
            return nested_arrow(sql_type, [_inside(part) for _, part in sql_type.parts])
        case _:
            return sql_type.arrow


def _plain(sql_type: Type) -> Callable[[Any], Any]:
    """From what Arrow gives to tuples."""
    inner = [_plain(part) for _, part in sql_type.parts]
    match sql_type.kind:
        case Kind.ARRAY:
            item = inner[0]
            return lambda value: None if value is None else tuple(map(item, value))
        case Kind.MAP:
            key, item = inner
            return lambda value: (
                None if value is None else tuple((key(k), item(v)) for k, v in value)
            )
        case Kind.STRUCT:
            fields = [(name, plain) for (name, _), plain in zip(sql_type.parts, inner, strict=True)]
            return lambda value: (
                None if value is None else tuple(plain(value[name]) for name, plain in fields)
            )
        case _:
            return lambda value: value


def _for_arrow(sql_type: Type) -> Callable[[Any], Any]:
    """From tuples to what Arrow takes."""
    inner = [_for_arrow(part) for _, part in sql_type.parts]
    match sql_type.kind:
        case Kind.ARRAY:
            item = inner[0]
            return lambda value: None if value is None else list(map(item, value))
        case Kind.MAP:
            key, item = inner
            return lambda value: None if value is None else [(key(k), item(v)) for k, v in value]
        case Kind.STRUCT:
            fields = [(name, given) for (name, _), given in zip(sql_type.parts, inner, strict=True)]
            return lambda value: (
                None
                if value is None
                else {name: known(v) for (name, known), v in zip(fields, value, strict=True)}
            )
        case _:
            return lambda value: value
