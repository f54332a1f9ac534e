"""Conversions of one value, as CAST and TRY_CAST make them."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from penstock.errors import RunError, shortened
from penstock.io.formats.text_values import day_of, number_of, parse_cell
from penstock.model.durations import DAY
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Kind, Type
from penstock.model.values import to_text

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (INT64_MIN, INT64_MAX)
_RANGES = {
    Kind.INT: _INT32,
    Kind.DATE: _INT32,
    Kind.BIGINT: _INT64,
    Kind.TIMESTAMP: _INT64,
    Kind.INTERVAL: _INT64,
}


def cast(value: Any, given: Type, wanted: Type, tries: bool) -> Any:
    """Convert a value to another type; where that is impossible, NULL if `tries`, else an error."""
    if value is None or given == wanted:
        return value
    converted = _convert(value, given, wanted)
    if converted is None and not tries:
        raise RunError(
            f"{_shown(value)} cannot be made {wanted.a}",
            hint="TRY_CAST gives NULL instead",
        )
    return converted


def _shown(value: Any) -> str:
    return shortened(str(value) if isinstance(value, Decimal) else repr(value))


def _convert(value: Any, given: Type, wanted: Type) -> Any:
    if given.kind is Kind.STRING:
        return of_text(value, wanted)
    if wanted.is_nested:
        return _nested(value, given, wanted)
    match wanted.kind:
        case Kind.STRING:
            return _text(value, given)
        case Kind.BOOLEAN:
            return bool(value)
        case Kind.INT | Kind.BIGINT:
            return _whole(value, wanted)
        case Kind.DOUBLE:
            return float(value)
        case Kind.DECIMAL:
            return _decimal(value, wanted)
        case Kind.DATE:
            return value // DAY
        case Kind.TIMESTAMP:
            return value * DAY if fits(value * DAY, wanted) else None
    return None


def of_text(text: str, wanted: Type) -> Any:
    """Parse a text as streams do. In addition, a DATE may be followed by a time, which is dropped,
    and a DECIMAL may have more places than its type, which are rounded.
    """
    read = parse_cell(text, wanted)
    if read is not None:
        return read
    if wanted.kind is Kind.DATE:
        return day_of(text)
    number = number_of(text) if wanted.kind is Kind.DECIMAL else None
    return None if number is None else _decimal(number, wanted)


def _nested(value: Any, given: Type, wanted: Type) -> Any:
    """Convert all parts; None if one cannot be converted."""
    (_, one), (_, other) = given.parts[-1], wanted.parts[-1]
    try:
        match wanted.kind:
            case Kind.ARRAY:
                return tuple(cast(each, one, other, tries=False) for each in value)
            case Kind.MAP:
                keys = given.parts[0][1], wanted.parts[0][1]
                return tuple(
                    (cast(key, *keys, tries=False), cast(each, one, other, tries=False))
                    for key, each in value
                )
            case _:
                types = zip(value, given.parts, wanted.parts, strict=True)
                return tuple(cast(each, a, b, tries=False) for each, (_, a), (_, b) in types)
    except RunError:
        return None


def _whole(value: Any, wanted: Type) -> int | None:
    """Convert to a whole number, truncating towards zero; None if it does not fit."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    whole = math.trunc(value)
    return whole if fits(whole, wanted) else None


def _decimal(value: Any, wanted: Type) -> Decimal | None:
    """Round to the nearest decimal, halves away from zero; None if it does not fit."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = Decimal(repr(value))
    if not isinstance(value, Decimal):
        value = Decimal(value)
    if value.copy_abs() >= Decimal(10) ** wanted.precision:  # too many digits to be rounded at all
        return None
    rounded = value.quantize(Decimal(1).scaleb(-wanted.scale), ROUND_HALF_UP, EXACT)
    return _unsigned_zero(rounded) if fits(rounded, wanted) else None


def fits(value: Any, wanted: Type) -> bool:
    """Whether a value is in the range of its type."""
    if wanted.kind is Kind.DECIMAL:
        # not abs(): that would round to the digits of the current context
        return bool(EXACT.scaleb(value, wanted.scale).copy_abs() < 10**wanted.precision)
    if wanted.kind in _RANGES:
        low, high = _RANGES[wanted.kind]
        return bool(low <= value <= high)
    return True


def checked(value: Any, wanted: Type) -> Any:
    """Convert a computed value to the form of its type; an error if it does not fit."""
    if value is None:
        return None
    if not fits(value, wanted):
        raise RunError(f"{value} is too large for {wanted}")
    if wanted.kind is Kind.DECIMAL:
        return _unsigned_zero(value.quantize(Decimal(1).scaleb(-wanted.scale), context=EXACT))
    return value


def _unsigned_zero(value: Decimal) -> Decimal:
    """Replace −0 by 0: decimals have one zero in SQL, though Python has two."""
    return value if value else value.copy_abs()


def _text(value: Any, given: Type) -> str | None:
    if given.kind is not Kind.BINARY:
        return to_text(value, given)
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return None


def truncate(value: Decimal) -> Decimal:
    return value.quantize(Decimal(1), ROUND_DOWN, EXACT)
