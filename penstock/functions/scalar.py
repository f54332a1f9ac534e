"""The catalogue of scalar functions.  NULL in, NULL out, unless a function says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.functions.signature import Family, Signature
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal_type,
)

TypeRule = Callable[[tuple[Type, ...]], Type]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    name: str
    signature: Signature
    returns: TypeRule
    about: str
    monotone: bool = False  # never goes down as its last argument goes up: progress passes through


def _always(sql_type: Type) -> TypeRule:
    return lambda _: sql_type


def _like_first(arguments: tuple[Type, ...]) -> Type:
    return arguments[0]


def _like_last(arguments: tuple[Type, ...]) -> Type:
    return arguments[-1]


def _rounded(arguments: tuple[Type, ...]) -> Type:
    """Rounding to whole numbers keeps integers, gives decimals without places, keeps doubles."""
    if arguments[0].kind is Kind.DECIMAL:
        return decimal_type(38, 0)
    return arguments[0]


def _round_type(arguments: tuple[Type, ...]) -> Type:
    return _rounded(arguments) if len(arguments) == 1 else arguments[0]


def _signature(*families: Family, optional: int = 0, variadic: bool = False) -> Signature:
    return Signature(families, optional, variadic)


_F = Family
_ALL = [
    # texts
    ("upper", _signature(_F.STRING), _always(STRING), "in capitals"),
    ("lower", _signature(_F.STRING), _always(STRING), "in small letters"),
    ("length", _signature(_F.STRING), _always(BIGINT), "number of characters"),
    ("trim", _signature(_F.STRING), _always(STRING), "without spaces at both ends"),
    ("ltrim", _signature(_F.STRING), _always(STRING), "without spaces at the start"),
    ("rtrim", _signature(_F.STRING), _always(STRING), "without spaces at the end"),
    (
        "substr",
        _signature(_F.STRING, _F.INTEGER, _F.INTEGER, optional=1),
        _always(STRING),
        "from a position (1 is the first, −1 the last) for so many characters",
    ),
    ("left", _signature(_F.STRING, _F.INTEGER), _always(STRING), "the first so many characters"),
    ("right", _signature(_F.STRING, _F.INTEGER), _always(STRING), "the last so many characters"),
    ("replace", _signature(_F.STRING, _F.STRING, _F.STRING), _always(STRING), "a text for another"),
    ("concat", _signature(_F.STRING, variadic=True), _always(STRING), "one after the other"),
    ("reverse", _signature(_F.STRING), _always(STRING), "back to front"),
    ("starts_with", _signature(_F.STRING, _F.STRING), _always(BOOLEAN), "begins with"),
    ("ends_with", _signature(_F.STRING, _F.STRING), _always(BOOLEAN), "ends with"),
    ("contains", _signature(_F.STRING, _F.STRING), _always(BOOLEAN), "has it somewhere"),
    ("strpos", _signature(_F.STRING, _F.STRING), _always(BIGINT), "where it is (from 1), or 0"),
    (
        "split_part",
        _signature(_F.STRING, _F.STRING, _F.INTEGER),
        _always(STRING),
        "the n-th piece (from 1) between separators, '' if there is none",
    ),
    # numbers
    ("abs", _signature(_F.NUMBER), _like_first, "without the sign"),
    ("sign", _signature(_F.NUMBER), _always(BIGINT), "−1, 0 or 1"),
    (
        "round",
        _signature(_F.NUMBER, _F.INTEGER, optional=1),
        _round_type,
        "to so many places (0), halves away from zero",
    ),
    ("floor", _signature(_F.NUMBER), _rounded, "the next whole number down"),
    ("ceil", _signature(_F.NUMBER), _rounded, "the next whole number up"),
    ("sqrt", _signature(_F.DOUBLE), _always(DOUBLE), "square root (NaN below 0)"),
    ("exp", _signature(_F.DOUBLE), _always(DOUBLE), "e to the power"),
    ("ln", _signature(_F.DOUBLE), _always(DOUBLE), "natural logarithm"),
    ("log10", _signature(_F.DOUBLE), _always(DOUBLE), "logarithm to base 10"),
    ("log2", _signature(_F.DOUBLE), _always(DOUBLE), "logarithm to base 2"),
    ("power", _signature(_F.DOUBLE, _F.DOUBLE), _always(DOUBLE), "raised to"),
    ("greatest", _signature(_F.ALIKE, variadic=True), _like_first, "the largest, without NULLs"),
    ("least", _signature(_F.ALIKE, variadic=True), _like_first, "the smallest, without NULLs"),
    # times
    ("date_trunc", _signature(_F.STRING, _F.TIME), _like_last, "down to a whole unit"),
    ("date_part", _signature(_F.STRING, _F.TIME), _always(BIGINT), "one field of a time"),
    *[
        (field, _signature(_F.TIME), _always(BIGINT), f"the {field} of a time")
        for field in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    ],
    ("dayofweek", _signature(_F.TIME), _always(BIGINT), "1 for Monday to 7 for Sunday"),
    ("dayofyear", _signature(_F.TIME), _always(BIGINT), "1 for the first of January"),
    ("epoch", _signature(_F.TIMESTAMP), _always(BIGINT), "whole seconds since 1970"),
    ("epoch_ms", _signature(_F.TIMESTAMP), _always(BIGINT), "whole milliseconds since 1970"),
    ("epoch_us", _signature(_F.TIMESTAMP), _always(BIGINT), "microseconds since 1970"),
    ("timestamp_seconds", _signature(_F.INTEGER), _always(TIMESTAMP), "from seconds since 1970"),
    ("timestamp_millis", _signature(_F.INTEGER), _always(TIMESTAMP), "from milliseconds"),
    ("timestamp_micros", _signature(_F.INTEGER), _always(TIMESTAMP), "from microseconds"),
    (
        "time_bucket",
        _signature(_F.INTERVAL, _F.TIMESTAMP, _F.TIMESTAMP, optional=1),
        _always(TIMESTAMP),
        "down to a multiple of a length of time, counted from 1970 or an origin",
    ),
    (
        "number_bucket",
        _signature(_F.INTEGER, _F.INTEGER, _F.INTEGER, optional=1),
        _always(BIGINT),
        "down to a multiple of a number, counted from 0 or an origin",
    ),
    ("date", _signature(_F.TIME), _always(DATE), "the day of a time"),
    # NULLs and choices
    ("coalesce", _signature(_F.ALIKE, variadic=True), _like_first, "the first that is not NULL"),
    ("nullif", _signature(_F.ALIKE, _F.ALIKE), _like_first, "NULL if both are equal"),
    ("if", _signature(_F.BOOLEAN, _F.ALIKE, _F.ALIKE), _like_last, "one or the other"),
]
_MONOTONE = {
    "date_trunc",
    "floor",
    "ceil",
    "epoch",
    "epoch_ms",
    "epoch_us",
    "timestamp_seconds",
    "timestamp_millis",
    "timestamp_micros",
    "date",
}

SCALARS: dict[str, ScalarFunction] = {
    name: ScalarFunction(name, signature, returns, about, name in _MONOTONE)
    for name, signature, returns, about in _ALL
}
ALIASES: dict[str, str] = {
    "ucase": "upper",
    "lcase": "lower",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substring": "substr",
    "position": "strpos",
    "ceiling": "ceil",
    "pow": "power",
    "log": "ln",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "iff": "if",
    "extract": "date_part",
    "datepart": "date_part",
    "trunc": "date_trunc",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "unix_micros": "epoch_us",
    "unix_millis": "epoch_ms",
    "unix_seconds": "epoch",
    "to_date": "date",
    "date_bin": "time_bucket",
}


def scalar(name: str) -> ScalarFunction | None:
    lower = name.lower()
    return SCALARS.get(ALIASES.get(lower, lower))
