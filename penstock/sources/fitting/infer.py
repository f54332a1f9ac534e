"""The schema of data that brings none: from its Arrow types, or from the first rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError, PlanError, SourceError
from penstock.model.schema import Field, Schema
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    array_of,
    as_decimal,
    decimal_type,
    from_arrow,
    struct_of,
)
from penstock.sources.fitting.objects import scalar_of

SAMPLE = 1000  # rows
# In this order: a bool is an int, and a datetime is a date.
_CLASSES: tuple[tuple[type, Type], ...] = (
    (bool, BOOLEAN),
    (int, BIGINT),
    (float, DOUBLE),
    (str, STRING),
    (bytes, BINARY),
    (bytearray, BINARY),
    (datetime.datetime, TIMESTAMP),
    (datetime.date, DATE),
)
# The types that one column may mix.
_MIXES = {
    frozenset({Kind.BIGINT, Kind.DOUBLE}): DOUBLE,
    frozenset({Kind.DATE, Kind.TIMESTAMP}): TIMESTAMP,
}


def schema_of_arrow(arrow: pa.Schema) -> Schema:
    return _schema([Field(each.name, _type_of_arrow(each)) for each in arrow])


def _type_of_arrow(field: pa.Field) -> Type:
    try:
        found = from_arrow(field.type)
    except PlanError:  # a decimal with a negative scale
        found = None
    if found is None or found == INTERVAL:
        raise SourceError(
            f"column {field.name}: a stream cannot carry {field.type}",
            expected="booleans, numbers, strings, binary, dates, timestamps, or lists, structs and"
            " maps of them",
            hint="give a schema without the column",
        )
    return found


def schema_of_rows(rows: Iterable[Mapping[str, object]]) -> Schema:
    """The columns in the order in which they first appear."""
    types: dict[str, Type | None] = {}
    for row in rows:
        for name, value in row.items():
            if not isinstance(name, str):
                raise SourceError(f"the key {name!r} is not a string", expected="names of columns")
            types[name] = _joined(types.get(name), _type_of(value, name), name)
    return _schema([Field(name, _roomy(found)) for name, found in types.items()])


def _type_of(value: object, name: str) -> Type | None:
    """The type of one value; None for a NULL, which says nothing."""
    value = scalar_of(value)
    if value is None:
        return None
    if isinstance(value, Decimal):
        return _decimal(value, name)
    for python_class, sql_type in _CLASSES:
        if isinstance(value, python_class):
            return sql_type
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        item: Type | None = None
        for each in value:
            item = _joined(item, _type_of(each, name), name)
        return array_of(item or NULL)
    if isinstance(value, Mapping) and value and all(isinstance(each, str) for each in value):
        return struct_of([(key, _type_of(each, name) or NULL) for key, each in value.items()])
    raise SourceError(
        f"column {name}: a stream cannot carry {type(value).__name__} values",
        expected="bool, int, float, str, bytes, date, datetime, Decimal, lists or dicts of them",
        hint="give a schema without the column",
    )


def _decimal(value: Decimal, name: str) -> Type:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):  # NaN or Infinity, which no DECIMAL holds: rejected later
        return decimal_type(1, 0)
    scale = max(0, -exponent)
    return _decimal_type(max(0, value.adjusted() + 1) if value else 0, scale, name)


def _decimal_type(whole: int, scale: int, name: str) -> Type:
    if whole + scale > 38:
        raise SourceError(
            f"column {name}: {whole} digits before and {scale} after the point are too many",
            expected="at most 38 digits",
        )
    return decimal_type(max(1, whole + scale), scale)


def _joined(left: Type | None, right: Type | None, name: str) -> Type | None:
    if left is None or right is None or left == right:
        return left or right
    kinds = frozenset({left.kind, right.kind})
    if kinds in _MIXES:
        return _MIXES[kinds]
    if Kind.NULL in kinds:  # of what an empty list has many
        return right if left.kind is Kind.NULL else left
    if kinds in ({Kind.ARRAY}, {Kind.STRUCT}):
        return _joined_parts(left, right, name)
    if kinds <= {Kind.DECIMAL, Kind.BIGINT}:
        left, right = as_decimal(left), as_decimal(right)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        return _decimal_type(whole, max(left.scale, right.scale), name)
    raise SourceError(
        f"column {name} mixes {left} and {right}",
        expected="values of one type",
        hint="give a schema; rows that do not fit it are then rejected",
    )


def _joined_parts(left: Type, right: Type, name: str) -> Type:
    """The fields of both, in the order in which they first appear."""
    parts: dict[str, Type] = dict(left.parts)
    for each, part in right.parts:
        parts[each] = _joined(parts.get(each), part, name) or NULL
    return Type(left.kind, parts=tuple(parts.items()))


def _roomy(found: Type | None) -> Type:
    """Leave room for DECIMALs after the sample: 18 digits, or 38 where that is not enough."""
    if found is None:
        return STRING
    if found.kind is Kind.DECIMAL:
        return decimal_type(18 if found.precision <= 18 else 38, found.scale)
    if found.kind is Kind.NULL:
        return STRING
    if found.is_nested:
        return replace(found, parts=tuple((name, _roomy(part)) for name, part in found.parts))
    return found


def _schema(fields: list[Field]) -> Schema:
    if not fields:
        raise SourceError("the data has no columns", expected="at least one column")
    try:
        return Schema(tuple(fields))
    except PenstockError as error:
        raise SourceError(f"the data cannot be a stream: {error.message}") from error
