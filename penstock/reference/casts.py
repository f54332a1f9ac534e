"""Conversions of one value, as CAST and TRY_CAST make them."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from penstock.errors import RunError
from penstock.model.duration import DAY
from penstock.model.texts import to_text
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Kind, Type
from penstock.sources.cells import parse_cell

_RANGES = {Kind.INT: (-(2**31), 2**31 - 1), Kind.BIGINT: (INT64_MIN, INT64_MAX)}


def cast(value: Any, given: Type, wanted: Type, tries: bool) -> Any:
    """The value as another type; where there is none, NULL if it only tries, else an error."""
    if value is None or given == wanted:
        return value
    converted = _convert(value, given, wanted)
    if converted is None and not tries:
        raise RunError(f"{value!r} cannot be made a {wanted}", hint="TRY_CAST gives NULL instead")
    return converted


def _convert(value: Any, given: Type, wanted: Type) -> Any:
    if given.kind is Kind.STRING:
        return parse_cell(value, wanted)
    match wanted.kind:
        case Kind.STRING:
            return _text(value, given)
        case Kind.BOOLEAN:
            return bool(value)
        case Kind.INT | Kind.BIGINT:
            return _whole(value, *_RANGES[wanted.kind])
        case Kind.DOUBLE:
            return float(value)
        case Kind.DECIMAL:
            return _decimal(value, wanted)
        case Kind.DATE:
            return value // DAY
        case Kind.TIMESTAMP:
            stamp = value * DAY
            return stamp if INT64_MIN <= stamp <= INT64_MAX else None
    return None


def _whole(value: Any, low: int, high: int) -> int | None:
    """Towards zero, if it fits."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    whole = math.trunc(value)
    return whole if low <= whole <= high else None


def _decimal(value: Any, wanted: Type) -> Decimal | None:
    """To the nearest, halves away from zero, if it fits."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = Decimal(repr(value))
    place = Decimal(1).scaleb(-wanted.scale)
    rounded = Decimal(value).quantize(place, ROUND_HALF_UP, EXACT)
    return rounded if fits(rounded, wanted) else None


def fits(value: Decimal, wanted: Type) -> bool:
    return bool(abs(EXACT.scaleb(value, wanted.scale)) < 10**wanted.precision)


def _text(value: Any, given: Type) -> str | None:
    if given.kind is not Kind.BINARY:
        return to_text(value, given)
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return None


def truncate(value: Decimal) -> Decimal:
    return value.quantize(Decimal(1), ROUND_DOWN, EXACT)
