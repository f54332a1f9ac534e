"""Format and parse times by a constant pattern, for whole columns.

Fields are formatted by small tables, one field at a time; texts are parsed by a regular
expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.columns import (
    Builder,
    Kernel,
    arrow,
    column_of,
    flags_of,
    holds_somewhere,
    present,
    values_of,
    without,
)
from penstock.expressions.time_kernels import OF_DAYS, OF_MICROSECONDS
from penstock.functions.time_formats import (
    FAR_DAYS,
    FIELDS,
    FormatPiece,
    TimeReading,
    offset_of,
    pieces_of,
    reading_of,
    spelled,
)
from penstock.model.arrays import Ints, Mask
from penstock.model.durations import DAY, MICROSECONDS
from penstock.model.types import BIGINT, TIMESTAMP
from penstock.plan.expressions import Call, Literal

_JOIN = arrow("binary_join_element_wise")
_NOTHING = pa.scalar("")
_THOUSAND = 1_000
_FAR = 20_000  # number of years up to which all are formatted, whether they occur or not
_RANGES = {
    "month": (1, 12),
    "day": (1, 31),
    "dayofyear": (1, 366),
    "isodow": (1, 7),
    "week": (1, 53),
    "quarter": (1, 4),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}


def _date_format(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    if literals[1] is None:
        return None
    try:
        pieces = pieces_of(literals[1].value)
    except RunError:
        return None  # which the first row says

    def kernel(times: pa.Array, _: pa.Scalar) -> pa.Array:
        values: Ints = values_of(times, TIMESTAMP)
        if times.null_count:
            values = np.where(present(times), values, 0)
        return _JOIN(*(_spelled(each, values, times) for each in pieces), _empty(times), _NOTHING)

    return kernel


def _empty(times: pa.Array) -> pa.Array:
    """'' for every time: a pattern of literal text alone would make no column."""
    return pc.if_else(times.is_valid(), _NOTHING, pa.scalar(None, pa.string()))


def _spelled(piece: FormatPiece, values: Ints, times: pa.Array) -> pa.Array | pa.Scalar:
    if piece.text:
        return pa.scalar(piece.text)
    field = FIELDS[piece.letter][0]
    if field in OF_DAYS:
        numbers = OF_DAYS[field](values // DAY)
    else:
        numbers = OF_MICROSECONDS[field](values)
    if field == "microsecond":
        return _fraction(numbers, piece.width, times)
    if field == "year":
        low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
        if high - low > _FAR:
            kinds, places = np.unique(numbers, return_inverse=True)
            return _texts(piece, kinds.tolist()).take(column_of(places, BIGINT, times))
        table = _texts(piece, range(low, high + 1))
    else:
        low, high = _RANGES[field]
        table = _table(piece, low, high)
    return table.take(column_of(numbers - low, BIGINT, times))


@cache
def _table(piece: FormatPiece, low: int, high: int) -> pa.Array:
    return _texts(piece, range(low, high + 1))


def _texts(piece: FormatPiece, numbers: Sequence[int]) -> pa.Array:
    return pa.array([spelled(piece.letter, piece.width, each) for each in numbers], pa.string())


def _fraction(numbers: Ints, width: int, times: pa.Array) -> pa.Array:
    """Format fractions with a table of a thousand texts for the first three digits, and one for
    the others.
    """
    upper, lower = np.divmod(numbers, _THOUSAND)
    first = _digits(min(width, 3)).take(column_of(upper, BIGINT, times))
    if width <= 3:
        return first
    rest = _digits(min(width, 6) - 3).take(column_of(lower, BIGINT, times))
    return _JOIN(first, rest, pa.scalar("0" * (width - 6)), _NOTHING)


@cache
def _digits(count: int) -> pa.Array:
    return pa.array([f"{number:03d}"[:count] for number in range(_THOUSAND)])


# --- reading -------------------------------------------------------------------------------------


def _to_timestamp(tries: bool) -> Builder:
    def build(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
        texts, pattern = literals
        if texts is not None or pattern is None:
            return None
        try:
            reading = reading_of(pattern.value)
        except RunError:
            return None  # which the first row says
        return _reader(reading, tries)

    return build


def _reader(reading: TimeReading, tries: bool) -> Kernel:
    extract = arrow("extract_regex", pc.ExtractRegexOptions(rf"(?s)\A{reading.pattern}\z"))

    def kernel(texts: pa.Array, _: pa.Scalar) -> pa.Array:
        found = extract(texts)
        times, bad = _times(reading, found)
        if tries:
            return without(column_of(times, TIMESTAMP, found), bad)
        if holds_somewhere(bad | ~present(found), texts):
            raise RunError("a text is not a time")
        return column_of(times, TIMESTAMP, texts)

    return kernel


def _times(reading: TimeReading, found: pa.StructArray) -> tuple[Ints, Mask]:
    """Times from the fields found, and a mask of the invalid ones; arbitrary where nothing was
    found.
    """
    given = {name: pc.struct_field(found, [name]) for name in reading.fields}

    def number(name: str, default: int) -> Ints:
        if name not in given:
            return np.full(len(found), default)
        return _whole(given[name], default)

    year = number("year", 1970) + 2000 * reading.century
    month = number("month", 1)
    if "name" in given:
        lower = pc.utf8_lower(given["name"])
        names = pa.array(reading.names)
        month = pc.index_in(lower, value_set=names).fill_null(0).to_numpy().astype(np.int64) + 1
    day, hour = number("day", 1), number("hour", 0)
    bad = np.zeros(len(found), bool)
    if "half" in given:
        half = number("half", 1)
        bad |= (half < 1) | (half > 12)
        hour = half % 12
        if "noon" in given:
            is_afternoon = pc.equal(pc.ascii_upper(given["noon"]), "PM")
            hour = hour + 12 * flags_of(is_afternoon)
    minute, second = number("minute", 0), number("second", 0)
    bad |= (month < 1) | (month > 12) | (hour > 23) | (minute > 59) | (second > 59)
    months = (year - 1970) * 12 + month - 1
    days = _first_days(months) + day - 1
    bad |= (day < 1) | (days >= _first_days(months + 1)) | (np.abs(days) > FAR_DAYS)
    within = (hour * 60 + minute) * MICROSECONDS["MINUTE"] + second * 1_000_000
    within += _microseconds(given.get("fraction"), len(found))
    return np.where(bad, 0, days) * DAY + within - _offsets(given.get("offset"), len(found)), bad


def _whole(digits: pa.Array, default: int) -> Ints:
    numbers: Ints = digits.cast(pa.int64()).fill_null(default).to_numpy()
    return numbers


def _first_days(months: Ints) -> Ints:
    """First days of months counted from January 1970."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _microseconds(digits: pa.Array | None, count: int) -> Ints:
    if digits is None:
        return np.zeros(count, np.int64)
    six = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 6, "0"), 0, 6)
    return _whole(six, 0)


def _offsets(texts: pa.Array | None, count: int) -> Ints:
    if texts is None:
        return np.zeros(count, np.int64)
    encoded = texts.dictionary_encode()
    offsets = np.array([0, *map(offset_of, encoded.dictionary.to_pylist())])
    found: Ints = offsets[encoded.indices.fill_null(-1).to_numpy() + 1]
    return found


TIME_FORMATS: dict[str, Builder] = {
    "date_format": _date_format,
    "to_timestamp": _to_timestamp(tries=False),
    "try_to_timestamp": _to_timestamp(tries=True),
}
