"""The types of `+ - * / DIV %`: what the operands are converted to and what comes out.

Whole numbers are computed as BIGINT (an overflow is an error, never a wrong number), `/` gives a
DOUBLE, decimals stay exact under `+ - *`.  Times and lengths of time combine as one would expect.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import BindError
from penstock.model.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTERVAL,
    TIMESTAMP,
    Kind,
    Type,
    as_decimal,
    common_type,
    decimal_type,
)

SYMBOLS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "div": "DIV", "mod": "%"}


class Arithmetic(NamedTuple):
    left: Type
    right: Type
    result: Type


def arithmetic(operator: str, left: Type, right: Type) -> Arithmetic:
    """How an operator applies to two types.

    >>> from penstock.model.types import INT
    >>> str(arithmetic("divide", INT, INT).result), str(arithmetic("add", INT, INT).result)
    ('DOUBLE', 'BIGINT')
    """
    left, right = _give_null_a_type(left, right), _give_null_a_type(right, left)
    found = (
        _numbers(operator, left, right)
        if left.is_number and right.is_number
        else _times(operator, left, right)
    )
    if found is None:
        raise BindError(f"{left} {SYMBOLS[operator]} {right} has no meaning")
    return found


def _give_null_a_type(one: Type, other: Type) -> Type:
    if one.kind is not Kind.NULL:
        return one
    if other.kind is Kind.NULL:
        return BIGINT
    return INTERVAL if other.kind in (Kind.TIMESTAMP, Kind.DATE) else other


def _numbers(operator: str, left: Type, right: Type) -> Arithmetic | None:
    if operator == "divide" or Kind.DOUBLE in (left.kind, right.kind):
        return None if operator == "div" else Arithmetic(DOUBLE, DOUBLE, DOUBLE)
    if left.is_integer and right.is_integer:
        return Arithmetic(BIGINT, BIGINT, BIGINT)
    left, right = as_decimal(left), as_decimal(right)
    if operator == "multiply":
        scale = left.scale + right.scale
        if scale > 38:
            raise BindError(f"{left} * {right} needs {scale} decimal places", expected="up to 38")
        precision = min(38, left.precision + right.precision + 1)
        return Arithmetic(left, right, decimal_type(precision, scale))
    if operator == "div":
        return Arithmetic(left, right, decimal_type(38, 0))
    both = common_type(left, right)
    assert both is not None
    wider = decimal_type(min(38, both.precision + 1), both.scale)
    return Arithmetic(both, both, wider if operator in ("add", "subtract") else both)


def _times(operator: str, left: Type, right: Type) -> Arithmetic | None:
    time = (Kind.TIMESTAMP, Kind.DATE)
    match operator, left.kind, right.kind:
        case "add" | "subtract", Kind.DATE, Kind.INT | Kind.BIGINT:
            return Arithmetic(DATE, BIGINT, DATE)
        case "subtract", Kind.DATE, Kind.DATE:
            return Arithmetic(DATE, DATE, BIGINT)
        case "add", Kind.INTERVAL, Kind.TIMESTAMP | Kind.DATE:
            return Arithmetic(INTERVAL, TIMESTAMP, TIMESTAMP)
        case "add" | "subtract", Kind.TIMESTAMP | Kind.DATE, Kind.INTERVAL:
            return Arithmetic(TIMESTAMP, INTERVAL, TIMESTAMP)
        case "subtract", _, _ if left.kind in time and right.kind in time:
            return Arithmetic(TIMESTAMP, TIMESTAMP, INTERVAL)
        case "add" | "subtract", Kind.INTERVAL, Kind.INTERVAL:
            return Arithmetic(INTERVAL, INTERVAL, INTERVAL)
        case "multiply", Kind.INTERVAL, Kind.INT | Kind.BIGINT:
            return Arithmetic(INTERVAL, BIGINT, INTERVAL)
        case "multiply", Kind.INT | Kind.BIGINT, Kind.INTERVAL:
            return Arithmetic(BIGINT, INTERVAL, INTERVAL)
        case _:
            return None
