"""The SQL types, what they are in Arrow, and their plain Python values.

Timestamps, dates and intervals are integers in Python (microseconds, days, microseconds): exact
over their whole range, where `datetime` ends at the year 9999.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from penstock.errors import PlanError


class Kind(Enum):
    __hash__ = object.__hash__  # that of Enum is written in Python, and tables are asked by kind

    NULL = "NULL"  # the type of a bare NULL, until something gives it one
    BOOLEAN = "BOOLEAN"
    INT = "INT"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BINARY = "BINARY"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    INTERVAL = "INTERVAL"  # of expressions and results; streams do not carry it


INTEGERS = (Kind.INT, Kind.BIGINT)
NUMBERS = (Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE)
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
# Enough digits for any product of two DECIMAL(38) values, so that no sum is rounded on the way.
EXACT = decimal.Context(prec=120)


@dataclass(frozen=True, slots=True)
class Type:
    kind: Kind
    precision: int = 0  # of DECIMAL only
    scale: int = 0

    def __post_init__(self) -> None:
        if self.kind is Kind.DECIMAL:
            if not 1 <= self.precision <= 38:
                raise PlanError(f"DECIMAL precision {self.precision} is outside 1..38")
            if not 0 <= self.scale <= self.precision:
                raise PlanError(f"DECIMAL scale {self.scale} is outside 0..{self.precision}")

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        return str(self.kind.value)

    @property
    def a(self) -> str:
        """The type with its article, for messages: an INT, a DATE."""
        return f"{'an' if self.kind.value[0] in 'AEIOU' else 'a'} {self}"

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGERS

    @property
    def arrow(self) -> pa.DataType:
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.kind]


NULL = Type(Kind.NULL)
BOOLEAN = Type(Kind.BOOLEAN)
INT = Type(Kind.INT)
BIGINT = Type(Kind.BIGINT)
DOUBLE = Type(Kind.DOUBLE)
STRING = Type(Kind.STRING)
BINARY = Type(Kind.BINARY)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
INTERVAL = Type(Kind.INTERVAL)

_ARROW: dict[Kind, pa.DataType] = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.INTERVAL: pa.duration("us"),
}


def decimal_type(precision: int, scale: int) -> Type:
    return Type(Kind.DECIMAL, precision, scale)


def from_arrow(arrow: pa.DataType) -> Type | None:
    """The SQL type that holds every value of an Arrow type, or None if there is none.

    >>> str(from_arrow(pa.uint32())), str(from_arrow(pa.timestamp("ns")))
    ('BIGINT', 'TIMESTAMP')
    """
    is_ = pa.types
    if is_.is_dictionary(arrow):
        return from_arrow(arrow.value_type)
    if is_.is_decimal(arrow):
        fits = arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision
        return decimal_type(arrow.precision, arrow.scale) if fits else None
    tests: list[tuple[bool, Type]] = [
        (is_.is_null(arrow), STRING),
        (is_.is_boolean(arrow), BOOLEAN),
        (is_.is_int8(arrow) or is_.is_int16(arrow) or is_.is_int32(arrow), INT),
        (is_.is_uint8(arrow) or is_.is_uint16(arrow), INT),
        (is_.is_integer(arrow) and arrow != pa.uint64(), BIGINT),
        (arrow == pa.uint64(), decimal_type(20, 0)),
        (is_.is_floating(arrow), DOUBLE),
        (is_.is_string(arrow) or is_.is_large_string(arrow) or is_.is_string_view(arrow), STRING),
        (is_.is_binary(arrow) or is_.is_large_binary(arrow) or is_.is_binary_view(arrow), BINARY),
        (is_.is_fixed_size_binary(arrow), BINARY),
        (is_.is_date(arrow), DATE),
        (is_.is_timestamp(arrow), TIMESTAMP),
        (is_.is_duration(arrow), INTERVAL),
    ]
    return next((sql_type for matches, sql_type in tests if matches), None)


def common_type(left: Type, right: Type) -> Type | None:
    """The narrowest type that both convert to without being asked, or None.

    >>> str(common_type(INT, decimal_type(5, 2))), str(common_type(DATE, TIMESTAMP))
    ('DECIMAL(12,2)', 'TIMESTAMP')
    """
    if left == right:
        return left
    if left.kind is Kind.NULL:
        return right
    if right.kind is Kind.NULL:
        return left
    if left.is_number and right.is_number:
        return _common_number(left, right)
    if {left.kind, right.kind} == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    return None


def _common_number(left: Type, right: Type) -> Type:
    if Kind.DOUBLE in (left.kind, right.kind):
        return DOUBLE
    if Kind.DECIMAL in (left.kind, right.kind):
        left, right = as_decimal(left), as_decimal(right)
        scale = max(left.scale, right.scale)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        return decimal_type(min(38, whole + scale), scale)
    return BIGINT


def as_decimal(number: Type) -> Type:
    """The decimal type that holds every value of an exact number type."""
    if number.kind is Kind.INT:
        return decimal_type(10, 0)
    if number.kind is Kind.BIGINT:
        return decimal_type(19, 0)
    return number


def to_python(column: pa.Array | pa.ChunkedArray, sql_type: Type) -> list[Any]:
    """The values of an Arrow column as plain Python values (see the top of this file)."""
    arrow = sql_type.arrow
    if column.type != arrow:
        column = column.cast(arrow)
    if sql_type.kind in (Kind.TIMESTAMP, Kind.INTERVAL):
        column = column.cast(pa.int64())
    elif sql_type.kind is Kind.DATE:
        column = column.cast(pa.int32())
    return column.to_pylist()  # type: ignore[no-any-return]


def to_arrow(values: Sequence[Any], sql_type: Type) -> pa.Array:
    """The Arrow column of plain Python values: the inverse of `to_python`."""
    if sql_type.kind in (Kind.TIMESTAMP, Kind.INTERVAL):
        return pa.array(values, pa.int64()).cast(sql_type.arrow)
    if sql_type.kind is Kind.DATE:
        return pa.array(values, pa.int32()).cast(pa.date32())
    return pa.array(values, sql_type.arrow)
