"""Format and parse times by patterns such as `yyyy-MM-dd HH:mm:ss`, with the letters of Java, in
UTC and in English.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from penstock.errors import RunError, shortened
from penstock.functions.times import part
from penstock.model.durations import DAY, MICROSECONDS, days_of

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LITERAL = "'"
FAR_DAYS = 106_000_000  # before and after 1970: further than that, nothing is read
_HOUR, _MINUTE = MICROSECONDS["HOUR"], MICROSECONDS["MINUTE"]


class FormatPiece(NamedTuple):
    """Piece of a pattern: a letter repeated `width` times, or literal text."""

    letter: str
    width: int
    text: str = ""


# The field of a time that a letter stands for, and how often it may be repeated.
FIELDS: dict[str, tuple[str, int]] = {
    **dict.fromkeys("yu", ("year", 9)),
    **dict.fromkeys("ML", ("month", 4)),
    "d": ("day", 2),
    "D": ("dayofyear", 3),
    "E": ("isodow", 4),
    "e": ("isodow", 1),
    "w": ("week", 2),
    **dict.fromkeys("Qq", ("quarter", 3)),
    **dict.fromkeys("HKhka", ("hour", 2)),
    "m": ("minute", 2),
    "s": ("second", 2),
    "S": ("microsecond", 9),
}
_UTC = {
    **dict.fromkeys(("X", "XX", "XXX", "ZZZZZ"), "Z"),
    **dict.fromkeys(("xx", "Z", "ZZ", "ZZZ"), "+0000"),
    **dict.fromkeys(("z", "zz", "zzz", "VV"), "UTC"),
    "x": "+00",
    "xxx": "+00:00",
}


@lru_cache(256)
def pieces_of(pattern: str) -> tuple[FormatPiece, ...]:
    """Split a pattern into pieces.

    >>> [(each.letter, each.width, each.text) for each in pieces_of("yyyy'y'")]
    [('y', 4, ''), ("'", 0, 'y')]
    """
    pieces: list[FormatPiece] = []
    for found in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'", pattern):
        run, text = found[0], found[1]
        if run == "'":
            raise RunError(f"a quote is not closed in the format {shortened(pattern)}")
        if text is not None:
            pieces.append(FormatPiece(LITERAL, 0, text.replace("''", "'") or "'"))
        elif not run[0].isalpha():
            pieces.append(FormatPiece(LITERAL, 0, run))
        elif run in _UTC or (run[0] in FIELDS and len(run) <= FIELDS[run[0]][1]):
            pieces.append(FormatPiece(run[0], len(run), _UTC.get(run, "")))
        else:
            raise RunError(
                f"{run} stands for nothing in the format {shortened(pattern)}",
                expected="y, M, d, H, h, m, s, S, a, E, D, w, Q, X, and others in quotes",
            )
    return tuple(pieces)


def format_time(value: int, pattern: str) -> str:
    """Format a time by a pattern.

    >>> format_time(0, "EEE d MMMM yyyy, h:mm a")
    'Thu 1 January 1970, 12:00 AM'
    """
    return "".join(
        each.text or spelled(each.letter, each.width, part(FIELDS[each.letter][0], value))
        for each in pieces_of(pattern)
    )


def spelled(letter: str, width: int, number: int) -> str:
    """Format one field of a time as its letters ask."""
    match letter:
        case "y" | "u":
            if width == 2:
                return f"{number % 100:02d}"
            return f"{'-' * (number < 0)}{abs(number):0{width}d}"
        case "M" | "L" if width > 2:
            return MONTHS[number - 1] if width == 4 else MONTHS[number - 1][:3]
        case "E":
            return WEEKDAYS[number - 1] if width == 4 else WEEKDAYS[number - 1][:3]
        case "Q" | "q" if width == 3:
            return f"Q{number}"
        case "a":
            return "AM" if number < 12 else "PM"
        case "h":
            number = (number - 1) % 12 + 1
        case "K":
            number %= 12
        case "k":
            number = number or 24
        case "S":
            return f"{number:06d}000"[:width]
    return f"{number:0{width}d}"


# --- reading -------------------------------------------------------------------------------------

_NUMBERS = {**dict.fromkeys("yu", "year"), "M": "month", "L": "month", "d": "day"}
_NUMBERS |= {"H": "hour", "h": "half", "m": "minute", "s": "second", "S": "fraction"}
OFFSET = "Z|[+-][0-9]{2}(?::?[0-9]{2})?"


class TimeReading(NamedTuple):
    """Regular expression with one group per field, for Python and for RE2, and how to read some
    fields.
    """

    pattern: str
    fields: frozenset[str]
    names: tuple[str, ...]  # of months, in small letters
    century: bool  # the year has two digits, and lies after 2000


@lru_cache(256)
def reading_of(pattern: str) -> TimeReading:
    made, fields, century = "", [], False
    names: tuple[str, ...] = ()
    for piece in pieces_of(pattern):
        letter, width = piece.letter, piece.width
        if letter == LITERAL:
            made += re.escape(piece.text)
            continue
        if letter in _NUMBERS and not (letter in "ML" and width > 2):
            name = _NUMBERS[letter]
            digits = f"{{{width}}}" if width > 1 or letter == "S" else "{1,2}"
            digits = "{1,6}" if width == 1 and name == "year" else digits
            inside = f"[0-9]{digits}"
            century = century or (name == "year" and width == 2)
        elif letter in "ML":
            name, names = "name", tuple(each[: 3 if width == 3 else 9].lower() for each in MONTHS)
            inside = "|".join(f"(?i:{each})" for each in names)
        elif letter == "a":
            name, inside = "noon", "(?i:AM|PM)"
        elif letter in "XxZ":
            name, inside = "offset", OFFSET
        else:
            name = ""
        if not name or name in fields:
            raise RunError(
                f"{letter * width} cannot be read in the format {shortened(pattern)}",
                expected="y, M, d, H, h with a, m, s, S and X, each of them once",
            )
        fields.append(name)
        made += f"(?P<{name}>{inside})"
    return TimeReading(made, frozenset(fields), names, century)


def read_time(text: str, pattern: str) -> int | None:
    """Parse a text into microseconds since 1970, or None if it does not match the pattern.

    >>> read_time("01.02.1970", "dd.MM.yyyy") // 86_400_000_000
    31
    """
    reading = reading_of(pattern)
    found = re.fullmatch(reading.pattern, text)
    if found is None:
        return None
    given = found.groupdict()
    year = int(given.get("year", 1970)) + 2000 * reading.century
    named = given.get("name")
    month = int(given.get("month", 1)) if named is None else reading.names.index(named.lower()) + 1
    day, hour = int(given.get("day", 1)), int(given.get("hour", 0))
    if "half" in given:
        half = int(given["half"])
        if not 1 <= half <= 12:
            return None
        hour = half % 12 + 12 * (given.get("noon", "AM").upper() == "PM")
    minute, second = int(given.get("minute", 0)), int(given.get("second", 0))
    if not (1 <= month <= 12 and hour < 24 and minute < 60 and second < 60):
        return None
    days = days_of(year, month, 1) + day - 1
    next_month = days_of(year + month // 12, month % 12 + 1, 1)
    if not day >= 1 or days >= next_month or abs(days) > FAR_DAYS:
        return None
    fraction = int(given.get("fraction", "0").ljust(6, "0")[:6])
    seconds = hour * _HOUR + minute * _MINUTE + second * 1_000_000
    return days * DAY + seconds + fraction - offset_of(given.get("offset", "Z"))


def offset_of(text: str) -> int:
    """Parse an offset from UTC into microseconds.

    >>> offset_of("+01:30") // 60_000_000
    90
    """
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    size = int(digits[:2]) * _HOUR + int(digits[2:]) * _MINUTE
    return -size if text[0] == "-" else size


def to_timestamp(text: str, pattern: str) -> int:
    read = read_time(text, pattern)
    if read is None:
        raise RunError(
            f"{shortened(repr(text))} is not written as {shortened(pattern)}",
            hint="try_to_timestamp gives NULL instead",
        )
    return read
