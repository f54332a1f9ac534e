"""Scalar functions and operators as Spark columns, where Spark computes exactly the same; and the
reasons why others are left to the kernel."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any, TypeAlias

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from penstock.model.durations import DAY, MICROSECONDS
from penstock.model.types import Kind, Type
from penstock.plan.expressions import Call, Literal
from penstock.spark.catalyst.types import spark_type


class Inexact(Exception):  # noqa: N818
    """Spark's value would not be Penstock's.  Users never see it."""


# Functions on times as Spark columns: computed on integers, independently of time zones.

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


# The scalar functions and operators as Spark columns: those that are exactly equal.
#
# `LEFT_OUT` has, for every other one, how Spark differs.

Build: TypeAlias = Callable[[Call, list[SparkColumn]], SparkColumn]

_INT32 = 2**31 - 1
_WHOLE_ABOVE = 2.0**53  # doubles from there on have no places
_DECIMAL_DIGITS = 38
_EXACT_DIGITS = 34  # Spark computes with so many digits of a decimal


def _simple(function: Callable[..., SparkColumn]) -> Build:
    return lambda _, given: function(*given)


def _constant(call: Call, position: int) -> Any:
    """The value of an argument that has to be a constant."""
    argument = call.arguments[position]
    if not isinstance(argument, Literal) or argument.value is None:
        raise Inexact(f"{call.function}: argument {position + 1} is not a constant")
    return argument.value


def _small(call: Call, position: int) -> int:
    number = int(_constant(call, position))
    if abs(number) > _INT32:
        raise Inexact(f"{call.function}: {number} is too large for Spark")
    return number


# --- comparisons ---------------------------------------------------------------------------------

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _comparison(name: str) -> Build:
    return lambda call, given: _compare(name, call, *given)


def _compare(name: str, call: Call, left: SparkColumn, right: SparkColumn) -> SparkColumn:
    """Compare as Penstock does: for Spark, NaN equals itself and is larger than all numbers; here
    it is neither."""
    if call.arguments[0].type.kind is not Kind.DOUBLE:
        return _COMPARE[name](left, right)  # type: ignore[no-any-return]
    if any(isinstance(a, Literal) and a.value == 0 for a in call.arguments):
        left = left + F.lit(0.0)  # readers of files that are told `= 0.0` may pass over −0.0
    compared = _COMPARE[name](left, right)
    constant = call.arguments[1]
    is_number = isinstance(constant, Literal) and not math.isnan(constant.value or 0.0)
    if is_number and name in ("eq", "ne", "lt", "le"):
        return compared  # type: ignore[no-any-return]
    guard, other = (right, left) if name in ("lt", "le") else (left, right)
    against_nan = F.isnan(guard) & other.isNotNull()
    return F.when(against_nan, F.lit(name == "ne")).otherwise(compared)


def _in(call: Call, given: list[SparkColumn]) -> SparkColumn:
    needle, *others = call.arguments
    if needle.type.kind is not Kind.DOUBLE:
        return given[0].isin(*given[1:])
    equals = [
        _compare("eq", Call("eq", (needle, other), call.type), given[0], column)
        for other, column in zip(others, given[1:], strict=True)
    ]
    return reduce(or_, equals)


def _is_distinct(call: Call, given: list[SparkColumn]) -> SparkColumn:
    left, right = given
    equal = _compare("eq", call, left, right)
    return F.when(left.isNull() | right.isNull(), left.isNull() != right.isNull()).otherwise(~equal)


def _nullif(call: Call, given: list[SparkColumn]) -> SparkColumn:
    equal = _compare("eq", call, *given)
    return F.when(F.coalesce(equal, F.lit(False)), F.lit(None)).otherwise(given[0])


def _extreme(function: Callable[..., SparkColumn]) -> Build:
    return lambda _, given: function(*given) if len(given) > 1 else given[0]


# --- numbers -------------------------------------------------------------------------------------


def _arithmetic(name: str) -> Build:
    compute: Callable[[Any, Any], Any] = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
    }[name]

    def build(call: Call, given: list[SparkColumn]) -> SparkColumn:
        kinds = {argument.type.kind for argument in call.arguments}
        if kinds & {Kind.TIMESTAMP, Kind.DATE}:
            return moved(name, call, given)
        _check_digits(call)
        return compute(*given)  # type: ignore[no-any-return]

    return build


def _signed(function: Callable[[SparkColumn], SparkColumn]) -> Build:
    def build(call: Call, given: list[SparkColumn]) -> SparkColumn:
        _check_digits(call)
        return function(given[0])

    return build


def _check_digits(call: Call) -> None:
    if call.type.kind is Kind.DECIMAL and call.type.precision > _EXACT_DIGITS:
        raise Inexact(f"{call.function}: Spark rounds decimals of more than {_EXACT_DIGITS} digits")


def _divisor(divisor: SparkColumn) -> SparkColumn:
    """NULL instead of zero: dividing by it gives NULL."""
    return F.when(divisor != 0, divisor)


def _divide(_: Call, given: list[SparkColumn]) -> SparkColumn:
    return given[0] / _divisor(given[1])


def _div(call: Call, given: list[SparkColumn]) -> SparkColumn:
    if call.type.kind is Kind.DECIMAL:
        raise Inexact("div: Spark makes a BIGINT of the quotient of decimals")
    return F.call_function("div", given[0], _divisor(given[1]))


def _mod(call: Call, given: list[SparkColumn]) -> SparkColumn:
    _check_digits(call)
    return given[0] % _divisor(given[1])


def _sign(call: Call, given: list[SparkColumn]) -> SparkColumn:
    (number,) = given
    sign = F.when(number > 0, F.lit(1)).when(number < 0, F.lit(-1)).when(number == 0, F.lit(0))
    if call.arguments[0].type.kind is Kind.DOUBLE:
        sign = F.when(F.isnan(number), F.lit(0)).otherwise(sign)
    return sign.cast("bigint")


def _to_whole(function: Callable[[SparkColumn], SparkColumn]) -> Build:
    def build(call: Call, given: list[SparkColumn]) -> SparkColumn:
        (number,) = given
        sql_type = call.arguments[0].type
        if sql_type.is_integer:
            return number
        if sql_type.kind is Kind.DECIMAL:
            return function(number).cast(spark_type(call.type))
        has_places = F.abs(number) < _WHOLE_ABOVE
        return F.when(has_places, function(number).cast("double")).otherwise(number)

    return build


def _round(call: Call, given: list[SparkColumn]) -> SparkColumn:
    places = _small(call, 1) if len(given) > 1 else 0
    sql_type = call.arguments[0].type
    if sql_type.kind is Kind.DOUBLE:
        raise Inexact("round: Spark rounds the digits that Java writes, which may be more")
    if places >= sql_type.scale:
        return given[0].cast(spark_type(call.type))
    if places < 0 or sql_type.precision == _DECIMAL_DIGITS:
        raise Inexact("round: Spark's result may not have enough digits")
    return F.round(given[0], places).cast(spark_type(call.type))


# --- texts ---------------------------------------------------------------------------------------


def _substr(call: Call, given: list[SparkColumn]) -> SparkColumn:
    start = _small(call, 1)
    size = _small(call, 2) if len(given) > 2 else _INT32
    if start == 0:  # the position before the first
        start, size = 1, size - (len(given) > 2)
    return F.substring(given[0], start, max(0, size))


def _left(call: Call, given: list[SparkColumn]) -> SparkColumn:
    return F.substring(given[0], 1, max(0, _small(call, 1)))


def _right(call: Call, given: list[SparkColumn]) -> SparkColumn:
    count = max(0, _small(call, 1))
    return F.substring(given[0], -count if count else 1, count)


def _like(call: Call, given: list[SparkColumn]) -> SparkColumn:
    pattern = str(_constant(call, 1))
    if re.search(r"\\(?![%_\\])", re.sub(r"\\\\", "", pattern)):
        raise Inexact("like: for Spark, a backslash stands before %, _ or a backslash only")
    return given[0].like(pattern)


def _split_part(call: Call, given: list[SparkColumn]) -> SparkColumn:
    if not str(_constant(call, 1)) or _small(call, 2) < 1:
        raise Inexact("split_part: Spark counts from the end, or refuses, without a piece to take")
    return F.split_part(given[0], given[1], F.lit(_small(call, 2)))


def _sha2(bits: int) -> Build:
    return lambda _, given: F.sha2(given[0], bits)


def _strpos(_: Call, given: list[SparkColumn]) -> SparkColumn:
    return F.call_function("instr", *given).cast("bigint")


# --- times ---------------------------------------------------------------------------------------


def _field(name: str) -> Build:
    return lambda call, given: field(name, given[0], call.arguments[0].type)


def _from_number(unit: int) -> Build:
    return lambda _, given: F.timestamp_micros(given[0] * F.lit(unit).cast("bigint"))


FUNCTIONS: dict[str, Build] = {
    **{name: _comparison(name) for name in _COMPARE},
    "and": lambda _, given: reduce(and_, given),
    "or": lambda _, given: reduce(or_, given),
    "not": lambda _, given: ~given[0],
    "in": _in,
    "is_null": lambda _, given: given[0].isNull(),
    "is_distinct": _is_distinct,
    "coalesce": _simple(F.coalesce),
    "nullif": _nullif,
    "greatest": _extreme(F.greatest),
    "least": _extreme(F.least),
    **{name: _arithmetic(name) for name in ("add", "subtract", "multiply")},
    "divide": _divide,
    "div": _div,
    "mod": _mod,
    "negate": _signed(F.negative),
    "abs": _signed(F.abs),
    "sign": _sign,
    "round": _round,
    "floor": _to_whole(F.floor),
    "ceil": _to_whole(F.ceil),
    "sqrt": _simple(F.sqrt),
    "length": lambda _, given: F.length(given[0]).cast("bigint"),
    "octet_length": lambda _, given: F.octet_length(given[0]).cast("bigint"),
    "trim": _simple(F.trim),
    "ltrim": _simple(F.ltrim),
    "rtrim": _simple(F.rtrim),
    "substr": _substr,
    "left": _left,
    "right": _right,
    "reverse": _simple(F.reverse),
    "starts_with": _simple(F.startswith),
    "ends_with": _simple(F.endswith),
    "contains": _simple(F.contains),
    "strpos": _strpos,
    "split_part": _split_part,
    "like": _like,
    "bitand": _simple(lambda a, b: a.bitwiseAND(b)),
    "bitor": _simple(lambda a, b: a.bitwiseOR(b)),
    "bitxor": _simple(lambda a, b: a.bitwiseXOR(b)),
    "bitnot": _simple(F.bitwise_not),
    "md5": _simple(F.md5),
    "sha1": _simple(F.sha1),
    **{f"sha{bits}": _sha2(bits) for bits in (224, 256, 384, 512)},
    "crc32": _simple(F.crc32),
    **{
        name: _field(name)
        for name in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    },
    **{name: _field(name) for name in ("isodow", "dayofyear", "epoch", "epoch_ms")},
    "date_part": date_part,
    "date_trunc": date_trunc,
    "epoch_us": _simple(F.unix_micros),
    "timestamp_seconds": _from_number(1_000_000),
    "timestamp_millis": _from_number(1_000),
    "timestamp_micros": _simple(F.timestamp_micros),
    "date": lambda call, given: date_of(given[0], call.arguments[0].type),
}
_OTHER_DIGITS = "Java's last digit differs from the C library's"
_OTHER_PATTERNS = "Java's regular expressions are others, and may take for ever"
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        (
            *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
            *("degrees", "radians", "asinh", "acosh", "atanh", "expm1", "log1p"),
        ),
        _OTHER_DIGITS,
    ),
    "bit_count": "Spark gives an INT",
    **dict.fromkeys(
        ("lowest_at_time_zone", "highest_at_time_zone"),
        "bounds of what clocks will show, which Spark does not know",
    ),
    **dict.fromkeys(("repeat", "replace", "concat"), "Spark makes texts of any length"),
    "chr": "Spark begins anew at 256",
    **dict.fromkeys(
        ("btrim", "trim_leading", "trim_trailing"), "Spark leaves what it is told with no character"
    ),
    **dict.fromkeys(("ascii", "to_base64", "translate"), "few look at whole columns of them"),
    **dict.fromkeys(("shiftleft", "shiftright"), "Spark takes any number of places"),
    **dict.fromkeys(
        ("json_get", "json_text", "json_value", "json_query"), "Spark writes numbers in another way"
    ),
    "add_months": "Spark makes a DATE of it",
    "at_time_zone": "Spark knows other zones",
    **dict.fromkeys(
        ("regexp_like", "regexp_extract", "regexp_replace", "regexp_count"), _OTHER_PATTERNS
    ),
    "split_index": "Spark has no such function",
    **dict.fromkeys(
        (
            *(
                "array",
                "map",
                "struct",
                "element",
                "map_value",
                "struct_field",
                "cardinality",
                "array_contains",
            ),
            *("array_concat", "array_reverse", "array_slice", "array_distinct"),
            *("array_max", "array_min", "array_position"),
            *("map_keys", "map_values", "string_split", "array_join"),
        ),
        "Spark fails where there is no element, and counts NULL in another way",
    ),
    "date_format": "Spark writes years before 1 and after 9999 in another way",
    **dict.fromkeys(("to_timestamp", "try_to_timestamp"), "Spark reads other texts"),
    **dict.fromkeys(("time_bucket", "number_bucket", "promised_as"), "Spark has no such function"),
    "upper": "Java and Python know different versions of Unicode",
    "lower": "Java and Python know different versions of Unicode",
    "ilike": "Spark compares small letters, by other tables of Unicode",
    "exp": _OTHER_DIGITS,
    "ln": "NULL instead of NaN and -Infinity, and " + _OTHER_DIGITS,
    "log10": "NULL instead of NaN and -Infinity, and " + _OTHER_DIGITS,
    "log2": "NULL instead of NaN and -Infinity, and " + _OTHER_DIGITS,
    "power": _OTHER_DIGITS,
}
