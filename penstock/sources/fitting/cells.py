"""One cell of text, read as a declared type: the rules, exactly, without Arrow.

`text.py` reads whole columns with Arrow where that follows the same rules, and comes here where
it does not.  Values are the plain Python values of `model.types`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from penstock.errors import SourceError
from penstock.model.duration import DAY, MICROSECONDS
from penstock.model.types import (
    DATE,
    EPOCHS,
    EXACT,
    INT64_MAX,
    INT64_MIN,
    TIMESTAMP,
    Epoch,
    Kind,
    Type,
)
from penstock.sources.fitting.epochs import likely_epoch, moment_of
from penstock.sources.reasons import does_not_fit, is_not, quoted

SPACES = " \t\r\n\f\v"
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_RANGES = {Kind.INT: (-(2**31), 2**31 - 1), Kind.BIGINT: (INT64_MIN, INT64_MAX)}
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "1", "yes"), True),
    **dict.fromkeys(("false", "f", "0", "no"), False),
}

_INTEGER = re.compile(r"([+-]?)0*([0-9]+)")
_FINITE = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(_FINITE)
_DOUBLE = re.compile(rf"{_FINITE}|[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_HEX = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2})*)")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    _DATE.pattern
    + r"(?:[T ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})[0-9]*)?)?)?"
    + r"(?:(Z)|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)


def parse_cell(text: str, sql_type: Type) -> Any | None:
    """The plain value, or None when the text is not one of the type.

    >>> from penstock.model.types import BOOLEAN, TIMESTAMP
    >>> parse_cell("Yes", BOOLEAN), parse_cell("1970-01-01T01:00:00.5+01:00", TIMESTAMP)
    (True, 500000)
    """
    if sql_type.kind is Kind.STRING:
        return text
    if sql_type.epoch is not None and _NUMBER.fullmatch(text.strip(SPACES)):
        return _counted(text.strip(SPACES), sql_type)
    if sql_type.kind not in _PARSERS:
        hint = "FORMAT JSON or FORMAT PARQUET" if sql_type.is_nested else None
        raise SourceError(f"a stream cannot carry {sql_type} as a text", hint=hint)
    return _PARSERS[sql_type.kind](text.strip(SPACES), sql_type)


def why_bad(text: str, sql_type: Type, shown: str | None = None) -> str:
    """Why `parse_cell` has no value for the text; the reason shows it in quotes or as `shown`."""
    trimmed = text.strip(SPACES)
    shown = shown or quoted(text)
    pattern = _INTEGER if sql_type.kind in _RANGES else _NUMBER
    numeric = sql_type.kind in (Kind.DECIMAL, *_RANGES) or sql_type.epoch is not None
    if numeric and pattern.fullmatch(trimmed):
        return does_not_fit(shown, sql_type)
    reason = is_not(shown, sql_type)
    if sql_type.kind in EPOCHS and _NUMBER.fullmatch(trimmed):
        reason += f": {how_counted(trimmed, sql_type)}"
    return reason


def how_counted(number: str, sql_type: Type) -> str:
    """What would make a number a time, for a column that takes none."""
    if sql_type.kind is Kind.DATE:
        return f"declare it DATE EPOCH {Epoch.DAYS.value} if it counts them since 1970"
    if len(number) == 8 and number.startswith(("19", "20")):
        return "write it as 2026-01-31"
    try:
        unit = likely_epoch(Decimal(number)).value
    except InvalidOperation:
        unit = Epoch.SECONDS.value
    return f"declare it TIMESTAMP EPOCH {unit} if it counts them since 1970"


def exact_decimal(value: Decimal, sql_type: Type) -> Decimal | None:
    """The same number with the scale of the type, or None if it does not fit without rounding.

    >>> from penstock.model.types import decimal_type
    >>> exact_decimal(Decimal("1E+1"), decimal_type(4, 2)), exact_decimal(
    ...     Decimal("0.125"), decimal_type(4, 2)
    ... )
    (Decimal('10.00'), None)
    """
    try:
        scaled = value.quantize(Decimal(1).scaleb(-sql_type.scale), context=EXACT)
    except InvalidOperation:  # not a number, or far more digits than any DECIMAL has
        return None
    whole_digits = sql_type.precision - sql_type.scale
    if scaled != value or (scaled and scaled.adjusted() >= whole_digits):
        return None
    return scaled


def _counted(text: str, sql_type: Type) -> int | None:
    try:
        return moment_of(Decimal(text), sql_type)
    except InvalidOperation:  # an exponent of twenty digits
        return None


def _boolean(text: str, _: Type) -> bool | None:
    return _BOOLEANS.get(text.lower())


def _integer(text: str, sql_type: Type) -> int | None:
    match = _INTEGER.fullmatch(text)
    if match is None or len(match[2]) > 19:
        return None
    value = int(match[1] + match[2])
    low, high = _RANGES[sql_type.kind]
    return value if low <= value <= high else None


def _double(text: str, _: Type) -> float | None:
    return float(text) if _DOUBLE.fullmatch(text) else None


def _decimal(text: str, sql_type: Type) -> Decimal | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return exact_decimal(Decimal(text), sql_type)
    except InvalidOperation:  # an exponent of twenty digits
        return None


def number_of(text: str) -> Decimal | None:
    """The number that a text is, with all of its places."""
    trimmed = text.strip(SPACES)
    try:
        return Decimal(trimmed) if _NUMBER.fullmatch(trimmed) else None
    except InvalidOperation:  # an exponent of twenty digits
        return None


def day_of(text: str) -> int | None:
    """The day of a time, as it is written: zones do not move it.

    >>> day_of("1970-01-02 23:30:00-05:00")
    1
    """
    trimmed = text.strip(SPACES)
    return None if _timestamp(trimmed, TIMESTAMP) is None else _date(trimmed[:10], DATE)


def _binary(text: str, _: Type) -> bytes | None:
    match = _HEX.fullmatch(text)
    return bytes.fromhex(match[1]) if match else None


def _date(text: str, _: Type) -> int | None:
    match = _DATE.fullmatch(text)
    return _days(match) if match else None


def _days(match: re.Match[str]) -> int | None:
    try:
        day = datetime.date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:  # there is no such day
        return None
    return day.toordinal() - _EPOCH


def _timestamp(text: str, _: Type) -> int | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (days := _days(match)) is None:
        return None
    hour, minute, second = (int(match[group] or 0) for group in (4, 5, 6))
    zone_hour, zone_minute = (int(match[group] or 0) for group in (10, 11))
    if max(hour, zone_hour) > 23 or max(minute, second, zone_minute) > 59:
        return None
    minutes = hour * 60 + minute
    offset = zone_hour * 60 + zone_minute
    minutes += offset if match[9] == "-" else -offset
    microseconds = int((match[7] or "").ljust(6, "0"))
    return (
        days * DAY
        + minutes * MICROSECONDS["MINUTE"]
        + second * MICROSECONDS["SECOND"]
        + microseconds
    )


_PARSERS: dict[Kind, Callable[[str, Type], Any | None]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: _integer,
    Kind.BIGINT: _integer,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.BINARY: _binary,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}
