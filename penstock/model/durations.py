"""The calendar in integers, for times that `datetime` and NumPy cannot hold; and lengths of time,
as unit words and as texts such as '5 seconds'.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from zoneinfo import ZoneInfo

from penstock.errors import PenstockError, nearest
from penstock.model.types import EXACT, Epoch


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


# Lengths of time: unit words, singular or plural, long or short, and texts such as '5 seconds'.

MICROSECONDS: dict[str, int] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
DAY = MICROSECONDS["DAY"]

_ALIASES: dict[str, str] = {
    **dict.fromkeys(("US", "MICRO", "MICROSEC"), "MICROSECOND"),
    **dict.fromkeys(("MS", "MILLI", "MILLISEC"), "MILLISECOND"),
    **dict.fromkeys(("S", "SEC"), "SECOND"),
    **dict.fromkeys(("M", "MIN"), "MINUTE"),
    **dict.fromkeys(("H", "HR"), "HOUR"),
    "D": "DAY",
    "W": "WEEK",
}
_WITHOUT_LENGTH = {"MONTH", "QUARTER", "YEAR", "MON"}


def unit(word: str) -> str:
    """The full singular name of a unit word.

    >>> unit("minutes"), unit("sec"), unit("ms")
    ('MINUTE', 'SECOND', 'MILLISECOND')
    """
    upper = word.upper()
    for name in (upper, upper.removesuffix("S")):
        if name in MICROSECONDS:
            return name
        if name in _ALIASES:
            return _ALIASES[name]
    if upper.removesuffix("S") in _WITHOUT_LENGTH:
        raise PenstockError(
            f"{upper} has no fixed length",
            expected="a unit from MICROSECONDS to WEEKS",
            hint="give the length in DAYS",
        )
    close = nearest(upper, [f"{name}S" for name in MICROSECONDS])
    raise PenstockError(
        f"{word!r} is not a unit of time",
        expected="MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS",
        hint=close[0] if close else None,
    )


def epoch_named(word: str) -> str | None:
    """The unit in which numbers count the time since 1970, by one of its names.

    >>> epoch_named("ms"), epoch_named("nanosecond"), epoch_named("weeks")
    ('MILLISECONDS', 'NANOSECONDS', None)
    """
    upper = word.upper()
    if upper in ("NS", "NANO", "NANOS", "NANOSECOND", "NANOSECONDS"):
        return Epoch.NANOSECONDS.value
    try:
        name = f"{unit(upper)}S"
    except PenstockError:
        return None
    return name if name in Epoch.__members__ else None


def is_unit(word: str) -> bool:
    """Whether a word is a unit of time, if only one without a fixed length.

    >>> is_unit("ms"), is_unit("Month"), is_unit("into")
    (True, True, False)
    """
    upper = word.upper()
    known = {*MICROSECONDS, *_ALIASES, *_WITHOUT_LENGTH}
    return upper in known or upper.removesuffix("S") in known


def microseconds(amount: Decimal, word: str) -> int:
    """The length of `amount` units in whole microseconds; finer lengths are refused."""
    exact = EXACT.multiply(amount, Decimal(MICROSECONDS[unit(word)]))
    if exact != exact.to_integral_value():
        raise PenstockError(f"{amount} {word} is not a whole number of microseconds")
    return int(exact)


_TEXT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def parse_duration(text: str) -> int:
    """The microseconds of a text with one or more amounts.

    >>> parse_duration("5 seconds"), parse_duration("1h 30min")
    (5000000, 5400000000)
    """
    position, total = 0, 0
    while match := _TEXT.match(text, position):
        try:
            total += microseconds(Decimal(match[1]), match[2])
        except InvalidOperation:  # more digits than a decimal holds
            break
        position = match.end()
    if position != len(text) or not text.strip():
        raise PenstockError(
            f"{text!r} is not a length of time",
            expected="an amount and a unit",
            hint="'5 seconds' or '1 hour 30 minutes'",
        )
    return total


def format_duration(length: int) -> str:
    """The length in the largest units that divide it.

    >>> format_duration(600_000_000), format_duration(90_500_000)
    ('10 MINUTES', '90500 MILLISECONDS')
    """
    for name, size in reversed(MICROSECONDS.items()):
        if length % size == 0 and (length or name == "SECOND"):
            amount = length // size
            return f"{amount} {name}" if amount == 1 else f"{amount} {name}S"
    raise AssertionError("every length is a number of microseconds")
