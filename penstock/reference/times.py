"""The calendar: what the functions on times compute, on microseconds since 1970.

Integers all the way, because `datetime` ends at the year 9999 and timestamps do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.errors import RunError
from penstock.model.duration import DAY, MICROSECONDS
from penstock.model.types import INT64_MAX, INT64_MIN


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day counted from 1970, in the calendar used ever after 1582."""
    shifted = days + 719_468  # days since 0000-03-01, when leap days come last in the year
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def days_of(year: int, month: int, day: int) -> int:
    """The inverse of `civil`.

    >>> days_of(*civil(20_000)), civil(-1)
    (20000, (1969, 12, 31))
    """
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


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
        case "dayofweek":
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


def _stamp(value: int, unit: int) -> int:
    stamp = value * unit
    if not INT64_MIN <= stamp <= INT64_MAX:
        raise RunError(f"{value} is too large for TIMESTAMP")
    return stamp


_PARTS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "dayofweek",
    "dayofyear",
)
TIME_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "date_trunc": trunc,
    "date_part": part,
    **{name: partial(part, name) for name in _PARTS},
    "epoch": lambda value: value // 1_000_000,
    "epoch_ms": lambda value: value // 1_000,
    "epoch_us": lambda value: value,
    "timestamp_seconds": lambda value: _stamp(value, 1_000_000),
    "timestamp_millis": lambda value: _stamp(value, 1_000),
    "timestamp_micros": lambda value: value,
    "date": lambda value: value // DAY,
}
