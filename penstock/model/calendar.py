"""The calendar in integers, for times that `datetime` and NumPy cannot hold."""

from __future__ import annotations

from functools import lru_cache
from zoneinfo import ZoneInfo


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day counted from 1970, as if today's calendar had always held.

    >>> civil(-1)
    (1969, 12, 31)
    """
    shifted = days + 719_468  # days since 0000-03-01: leap days come last in such a year
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

    >>> days_of(*civil(20_000))
    20000
    """
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def format_date(days: int) -> str:
    """
    >>> format_date(-719_529)
    '-0001-12-31'
    """
    year, month, day = civil(days)
    sign = "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def format_timestamp(microseconds: int) -> str:
    """ISO 8601 in UTC with microseconds.

    >>> format_timestamp(0)
    '1970-01-01T00:00:00.000000Z'
    """
    days, within = divmod(microseconds, 86_400_000_000)
    seconds, fraction = divmod(within, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{format_date(days)}T{hour:02d}:{minute:02d}:{second:02d}.{fraction:06d}Z"


@lru_cache(64)
def time_zone(name: str) -> ZoneInfo | None:
    """The time zone of a name, if there is one."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # KeyError: there is none of the name
        return None
