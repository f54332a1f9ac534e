"""Lengths of time: unit words, singular or plural, long or short, and texts such as '5 seconds'."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from penstock.errors import PenstockError, nearest
from penstock.model.types import EXACT, Epoch

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
