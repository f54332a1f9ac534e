"""What the functions on times compute, on microseconds since 1970."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.errors import RunError
from penstock.model.calendar import civil, days_of
from penstock.model.duration import DAY, MICROSECONDS


def trunc(unit: str, value: int) -> int:
    """Down to a whole unit; weeks begin on Monday."""
    unit = unit.upper()
    if unit in MICROSECONDS and unit != "WEEK":
        return value // MICROSECONDS[unit] * MICROSECONDS[unit]
    days = value // DAY
    year, month, _ = civil(days)
    match unit:
        case "WEEK":
            days -= (days + 3) % 7  # 1970-01-01 was a Thursday
        case "MONTH":
            days = days_of(year, month, 1)
        case "QUARTER":
            days = days_of(year, (month - 1) // 3 * 3 + 1, 1)
        case "YEAR":
            days = days_of(year, 1, 1)
    return days * DAY


def part(field: str, value: int) -> int:
    days, within = divmod(value, DAY)
    year, month, day = civil(days)
    match field.lower():
        case "year":
            return year
        case "quarter":
            return (month - 1) // 3 + 1
        case "month":
            return month
        case "week":
            return _iso_week(days)
        case "day":
            return day
        case "isodow":
            return (days + 3) % 7 + 1
        case "dayofyear":
            return days - days_of(year, 1, 1) + 1
        case "hour":
            return within // MICROSECONDS["HOUR"]
        case "minute":
            return within // MICROSECONDS["MINUTE"] % 60
        case "second":
            return within // MICROSECONDS["SECOND"] % 60
        case "millisecond":
            return within // 1_000 % 1_000
        case "microsecond":
            return within % 1_000_000
        case "epoch":
            return value // MICROSECONDS["SECOND"]
    raise RunError(f"a time has no {field}")


def _iso_week(days: int) -> int:
    """Weeks begin on Monday; the first one has the year's first Thursday."""
    thursday = days - (days + 3) % 7 + 3
    return (thursday - days_of(civil(thursday)[0], 1, 1)) // 7 + 1


_PARTS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "isodow",
    "dayofyear",
)
TIME_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "date_trunc": trunc,
    "date_part": part,
    **{name: partial(part, name) for name in _PARTS},
    "epoch": lambda value: value // 1_000_000,
    "epoch_ms": lambda value: value // 1_000,
    "epoch_us": lambda value: value,
    "timestamp_seconds": lambda value: value * 1_000_000,
    "timestamp_millis": lambda value: value * 1_000,
    "timestamp_micros": lambda value: value,
    "date": lambda value: value // DAY,
}
