"""The scalar functions on times: signatures, fields and units, calendar months, and time zones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from penstock.errors import RunError, shortened
from penstock.functions.signatures import Entry, Family, always, like_first, like_last, takes
from penstock.model.durations import DAY, MICROSECONDS, civil, days_of, time_zone
from penstock.model.types import BIGINT, DATE, STRING, TIMESTAMP

_F = Family
TIMES: list[Entry] = [
    ("date_trunc", takes(_F.STRING, _F.TIME), like_last, "down to a whole unit"),
    ("date_part", takes(_F.STRING, _F.TIME), always(BIGINT), "one field of a time"),
    *[
        (field, takes(_F.TIME), always(BIGINT), f"the {field} of a time")
        for field in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    ],
    ("isodow", takes(_F.TIME), always(BIGINT), "1 for Monday to 7 for Sunday"),
    ("dayofyear", takes(_F.TIME), always(BIGINT), "1 for the first of January"),
    ("epoch", takes(_F.TIMESTAMP), always(BIGINT), "whole seconds since 1970"),
    ("epoch_ms", takes(_F.TIMESTAMP), always(BIGINT), "whole milliseconds since 1970"),
    ("epoch_us", takes(_F.TIMESTAMP), always(BIGINT), "microseconds since 1970"),
    ("timestamp_seconds", takes(_F.INTEGER), always(TIMESTAMP), "from seconds since 1970"),
    ("timestamp_millis", takes(_F.INTEGER), always(TIMESTAMP), "from milliseconds"),
    ("timestamp_micros", takes(_F.INTEGER), always(TIMESTAMP), "from microseconds"),
    (
        "time_bucket",
        takes(_F.INTERVAL, _F.TIMESTAMP, _F.TIMESTAMP, optional=1),
        always(TIMESTAMP),
        "down to a multiple of a length of time, counted from 1970 or an origin",
    ),
    (
        "number_bucket",
        takes(_F.INTEGER, _F.INTEGER, _F.INTEGER, optional=1),
        always(BIGINT),
        "down to a multiple of a number, counted from 0 or an origin",
    ),
    ("date", takes(_F.TIME), always(DATE), "the day of a time"),
    (
        "date_format",
        takes(_F.TIMESTAMP, _F.STRING),
        always(STRING),
        "a time as a text, written as `yyyy-MM-dd HH:mm:ss` says",
    ),
    (
        "to_timestamp",
        takes(_F.STRING, _F.STRING),
        always(TIMESTAMP),
        "the time that a text says, written as `yyyy-MM-dd HH:mm:ss` says",
    ),
    (
        "try_to_timestamp",
        takes(_F.STRING, _F.STRING),
        always(TIMESTAMP),
        "the same, NULL if it is not written so",
    ),
    (
        "add_months",
        takes(_F.TIME, _F.INTEGER),
        like_first,
        "so many calendar months later, on the last day if there is none so late",
    ),
    (
        "at_time_zone",
        takes(_F.TIMESTAMP, _F.STRING),
        always(TIMESTAMP),
        "what a clock in a time zone shows at a moment",
    ),
]


# Fields and whole units of times, on microseconds since 1970.


def trunc(unit: str, value: int) -> int:
    """Round down to a whole unit; weeks begin on Monday."""
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
    """ISO number of the week: weeks begin on Monday, and the first one has the year's first
    Thursday.
    """
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


# Calendar months and time zones.

_ERA = 146_097 * DAY  # 400 years, after which the calendar is the same
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_000_000_000_000_000, 250_000_000_000_000_000  # of the years 5 to 9892


def add_months(days: int, months: int) -> int:
    """Move a day by months; to the last day of the month if that is shorter.

    >>> civil(add_months(days_of(2026, 1, 31), 1))
    (2026, 2, 28)
    """
    year, month, day = civil(days)
    year, month = divmod(year * 12 + month - 1 + months, 12)
    first = days_of(year, month + 1, 1)
    end = days_of(year + (month + 1) // 12, (month + 1) % 12 + 1, 1)
    return first + min(day, end - first) - 1


def add_months_to_time(value: int, months: int) -> int:
    days, within = divmod(value, DAY)
    return add_months(days, months) * DAY + within


def zone_of(name: str) -> ZoneInfo:
    found = time_zone(name)
    if found is None:
        raise RunError(
            f"there is no time zone called {shortened(repr(name))}", hint="'Europe/Berlin' or 'UTC'"
        )
    return found


_HOUR = 3_600_000_000
_NEAR = 26 * _HOUR  # clocks are never put back by more, nor put forward and back within it


def lowest_at_time_zone(value: int, zone: str) -> int:
    """Lowest local time in a zone from a moment on: clocks may be put back.

    >>> from penstock.model.durations import format_timestamp
    >>> half_past_two = days_of(2026, 10, 25) * DAY + DAY // 48  # of summer time
    >>> format_timestamp(at_time_zone(half_past_two, "Europe/Berlin"))
    '2026-10-25T02:30:00.000000Z'
    >>> format_timestamp(lowest_at_time_zone(half_past_two, "Europe/Berlin"))
    '2026-10-25T02:00:00.000000Z'
    """
    shown = at_time_zone(value, zone)
    change = _change(value, value + _NEAR, zone)
    return shown if change is None else min(shown, at_time_zone(change, zone))


def highest_at_time_zone(value: int, zone: str) -> int:
    """Highest local time in a zone up to a moment."""
    shown = at_time_zone(value, zone)
    change = _change(value - _NEAR, value, zone)
    return shown if change is None else max(shown, at_time_zone(change - 1, zone))


def _change(begin: int, end: int, zone: str) -> int | None:
    """First moment after `begin` and up to `end` at which the offset of a zone changes; None if it
    does not.
    """
    before = at_time_zone(begin, zone) - begin
    if at_time_zone(end, zone) - end == before:
        return None
    while end - begin > 1:
        middle = (begin + end) // 2
        if at_time_zone(middle, zone) - middle == before:
            begin = middle
        else:
            end = middle
    return end


def at_time_zone(value: int, zone: str) -> int:
    """Local time in a zone at a moment, as if it were UTC."""
    known, near = zone_of(zone), value
    if near > _LAST:
        near -= ((near - _LAST) // _ERA + 1) * _ERA
    near = max(near, _FIRST)
    moment = _EPOCH + timedelta(microseconds=near)
    offset = moment.astimezone(known).utcoffset()
    assert offset is not None
    return value + offset // timedelta(microseconds=1)
