"""Functions on times as Spark columns: by whole numbers, so that no time zone has a say."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from penstock.model.duration import DAY, MICROSECONDS
from penstock.model.types import Kind, Type
from penstock.plan.expressions import Call, Literal
from penstock.spark.catalyst.inexact import Inexact

_TRUNC = {"WEEK": "WEEK", "MONTH": "MONTH", "QUARTER": "QUARTER", "YEAR": "YEAR"}
_OF_DATES: dict[str, Callable[[SparkColumn], SparkColumn]] = {
    "year": F.year,
    "quarter": F.quarter,
    "month": F.month,
    "week": F.weekofyear,
    "day": F.dayofmonth,
    "dayofyear": F.dayofyear,
    "isodow": lambda date: F.weekday(date) + 1,
}
_WITHIN_DAYS = {  # the unit, and how many of them there are before the next larger one
    "hour": (MICROSECONDS["HOUR"], 24),
    "minute": (MICROSECONDS["MINUTE"], 60),
    "second": (MICROSECONDS["SECOND"], 60),
    "millisecond": (1_000, 1_000),
    "microsecond": (1, 1_000_000),
}
_SINCE_1970 = {"epoch": 1_000_000, "epoch_ms": 1_000}


def floor_divided(number: SparkColumn, by: int) -> SparkColumn:
    """Down to a whole number; `div` goes towards zero."""
    unit = F.lit(by).cast("bigint")
    below = F.when(number % unit < 0, F.lit(1)).otherwise(F.lit(0))
    return F.call_function("div", number, unit) - below


def micros_of(time: SparkColumn, given: Type) -> SparkColumn:
    if given.kind is Kind.DATE:
        return F.unix_date(time).cast("bigint") * F.lit(DAY).cast("bigint")
    return F.unix_micros(time)


def days_of(time: SparkColumn, given: Type) -> SparkColumn:
    if given.kind is Kind.DATE:
        return F.unix_date(time)
    return floor_divided(F.unix_micros(time), DAY).cast("int")


def date_of(time: SparkColumn, given: Type) -> SparkColumn:
    return time if given.kind is Kind.DATE else F.date_from_unix_date(days_of(time, given))


def field(name: str, time: SparkColumn, given: Type) -> SparkColumn:
    if name in _OF_DATES:
        return _OF_DATES[name](date_of(time, given)).cast("bigint")
    if name in _SINCE_1970:
        if given.kind is Kind.DATE:
            return F.unix_date(time).cast("bigint") * F.lit(DAY // _SINCE_1970[name]).cast("bigint")
        return floor_divided(F.unix_micros(time), _SINCE_1970[name])
    if name not in _WITHIN_DAYS:
        raise Inexact(f"date_part: {name} is not known")
    unit, count = _WITHIN_DAYS[name]
    if given.kind is Kind.DATE:
        return F.unix_date(time).cast("bigint") * F.lit(0).cast("bigint")
    within = F.pmod(F.unix_micros(time), F.lit(unit * count).cast("bigint"))
    return F.call_function("div", within, F.lit(unit).cast("bigint"))


def date_part(call: Call, given: list[SparkColumn]) -> SparkColumn:
    return field(_unit(call).lower(), given[1], call.arguments[1].type)


def date_trunc(call: Call, given: list[SparkColumn]) -> SparkColumn:
    unit, time, sql_type = _unit(call).upper(), given[1], call.arguments[1].type
    if unit in _TRUNC:
        first = F.trunc(date_of(time, sql_type), _TRUNC[unit])
        if sql_type.kind is Kind.DATE:
            raise Inexact("date_trunc: Spark's dates wrap around before the first one")
        return F.timestamp_micros(F.unix_date(first).cast("bigint") * F.lit(DAY).cast("bigint"))
    if unit not in MICROSECONDS:
        raise Inexact(f"date_trunc: {unit} is not known")
    if sql_type.kind is Kind.DATE:
        return time
    micros = F.unix_micros(time)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(MICROSECONDS[unit]).cast("bigint")))


def _unit(call: Call) -> str:
    unit = call.arguments[0]
    if not isinstance(unit, Literal) or unit.value is None:
        raise Inexact(f"{call.function}: the unit is not a constant")
    return str(unit.value)


def moved(name: str, call: Call, given: list[SparkColumn]) -> SparkColumn:
    """Times and lengths of time, added and subtracted; an INTERVAL is a BIGINT here."""
    left, right = (
        _number(column, argument.type)
        for column, argument in zip(given, call.arguments, strict=True)
    )
    number = left + right if name == "add" else left - right
    match call.type.kind:
        case Kind.TIMESTAMP:
            return F.timestamp_micros(number)
        case Kind.DATE:
            return F.date_from_unix_date(number.cast("int"))
        case _:
            return number


def _number(column: SparkColumn, sql_type: Type) -> SparkColumn:
    match sql_type.kind:
        case Kind.TIMESTAMP:
            return F.unix_micros(column)
        case Kind.DATE:
            return F.unix_date(column).cast("bigint")
        case _:
            return column
