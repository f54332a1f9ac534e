"""Cells and columns of text, read as declared types; which columns of the data are meant, and which
rows are whole.

A converted column comes with a mask of its bad cells; a row with a bad cell is left out."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SourceError, nearest
from penstock.io.formats.epochs import from_texts, likely_epoch, moment_of
from penstock.io.sources.rejects import does_not_fit, is_not, quoted
from penstock.model.arrays import Mask
from penstock.model.durations import DAY, MICROSECONDS
from penstock.model.types import (
    DATE,
    EPOCHS,
    EXACT,
    INT64_MAX,
    INT64_MIN,
    TIMESTAMP,
    Epoch,
    Kind,
    Schema,
    Type,
)
from penstock.model.values import to_arrow

Converted: TypeAlias = tuple[pa.Array, Mask]


def all_good(column: pa.Array) -> Converted:
    return column, np.zeros(len(column), dtype=np.bool_)


def find_columns(schema: Schema, names: Sequence[str], where: str) -> list[int]:
    """Find the position of every declared column among `names`: its exact name, else in any
    case."""
    exact: dict[str, list[int]] = {}
    alike: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        exact.setdefault(name, []).append(position)
        alike.setdefault(_folded(name), []).append(position)
    positions = []
    for field in schema:
        found = exact.get(field.name) or alike.get(_folded(field.name), [])
        if len(found) != 1:
            raise _not_one(field.name, len(found), names, where)
        positions += found
    return positions


def _folded(name: str) -> str:
    return name.strip().casefold()


def _not_one(wanted: str, found: int, names: Sequence[str], where: str) -> SourceError:
    listed = ", ".join(names)
    if found:
        return SourceError(
            f"{where}: {found} columns are called {wanted}",
            expected=f"one column {wanted}; the columns are: {listed}",
        )
    close = nearest(wanted, names, limit=1)
    return SourceError(
        f"{where}: there is no column {wanted}",
        expected=f"one of its columns: {listed}",
        hint=close[0] if close else None,
    )


def whole_rows(
    schema: Schema,
    columns: Sequence[Converted],
    report: Callable[[int, int], None],
) -> pa.RecordBatch:
    """Select the rows without a bad cell; `report` is called with the others: row and first bad
    column."""
    arrays = [array for array, _ in columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    if not any(np.count_nonzero(mask) for _, mask in columns):
        return batch
    bad = np.column_stack([mask for _, mask in columns])
    bad_rows = bad.any(axis=1)
    first = bad.argmax(axis=1)
    for row in np.flatnonzero(bad_rows):
        report(int(row), int(first[row]))
    return batch.filter(pa.array(~bad_rows))


# One cell of text, read as a declared type: the rules, exactly, without Arrow.
#
# Whole columns are read with Arrow where that follows the same rules, and cell by cell where it
# does not.  Values are the plain Python values of `model.types`.

SPACES = " \t\r\n\f\v"
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_RANGES = {Kind.INT: (-(2**31), 2**31 - 1), Kind.BIGINT: (INT64_MIN, INT64_MAX)}
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "1", "yes"), True),
    **dict.fromkeys(("false", "f", "0", "no"), False),
}

_INTEGER = re.compile(r"([+-]?)0*([0-9]+)")
_FINITE = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(_FINITE)
_DOUBLE = re.compile(rf"{_FINITE}|[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_HEX = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2})*)")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    _DATE.pattern
    + r"(?:[T ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})[0-9]*)?)?)?"
    + r"(?:(Z)|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)


def parse_cell(text: str, sql_type: Type) -> Any | None:
    """Parse a cell to a plain value; None when the text is not of the type.

    >>> from penstock.model.types import BOOLEAN, TIMESTAMP
    >>> parse_cell("Yes", BOOLEAN), parse_cell("1970-01-01T01:00:00.5+01:00", TIMESTAMP)
    (True, 500000)
    """
    if sql_type.kind is Kind.STRING:
        return text
    if sql_type.epoch is not None and _NUMBER.fullmatch(text.strip(SPACES)):
        return _counted_cell(text.strip(SPACES), sql_type)
    if sql_type.kind not in _PARSERS:
        hint = "FORMAT JSON or FORMAT PARQUET" if sql_type.is_nested else None
        raise SourceError(f"a stream cannot carry {sql_type} as a text", hint=hint)
    return _PARSERS[sql_type.kind](text.strip(SPACES), sql_type)


def why_bad(text: str, sql_type: Type, shown: str | None = None) -> str:
    """Explain why `parse_cell` has no value for the text, which is quoted or replaced by
    `shown`."""
    trimmed = text.strip(SPACES)
    shown = shown or quoted(text)
    pattern = _INTEGER if sql_type.kind in _RANGES else _NUMBER
    numeric = sql_type.kind in (Kind.DECIMAL, *_RANGES) or sql_type.epoch is not None
    if numeric and pattern.fullmatch(trimmed):
        return does_not_fit(shown, sql_type)
    reason = is_not(shown, sql_type)
    if sql_type.kind in EPOCHS and _NUMBER.fullmatch(trimmed):
        reason += f": {how_counted(trimmed, sql_type)}"
    return reason


def how_counted(number: str, sql_type: Type) -> str:
    """Suggest the declaration by which a number would be a time, for a column that takes none."""
    if sql_type.kind is Kind.DATE:
        return f"declare it DATE EPOCH {Epoch.DAYS.value} if it counts them since 1970"
    if len(number) == 8 and number.startswith(("19", "20")):
        return "write it as 2026-01-31"
    try:
        unit = likely_epoch(Decimal(number)).value
    except InvalidOperation:
        unit = Epoch.SECONDS.value
    return f"declare it TIMESTAMP EPOCH {unit} if it counts them since 1970"


def exact_decimal(value: Decimal, sql_type: Type) -> Decimal | None:
    """Scale a number to the scale of the type; None if it does not fit without rounding.

    >>> from penstock.model.types import decimal_type
    >>> exact_decimal(Decimal("1E+1"), decimal_type(4, 2)), exact_decimal(
    ...     Decimal("0.125"), decimal_type(4, 2)
    ... )
    (Decimal('10.00'), None)
    """
    try:
        scaled = value.quantize(Decimal(1).scaleb(-sql_type.scale), context=EXACT)
    except InvalidOperation:  # not a number, or far more digits than any DECIMAL has
        return None
    whole_digits = sql_type.precision - sql_type.scale
    if scaled != value or (scaled and scaled.adjusted() >= whole_digits):
        return None
    return scaled


def _counted_cell(text: str, sql_type: Type) -> int | None:
    try:
        return moment_of(Decimal(text), sql_type)
    except InvalidOperation:  # an exponent of twenty digits
        return None


def _boolean(text: str, _: Type) -> bool | None:
    return _BOOLEANS.get(text.lower())


def _integer(text: str, sql_type: Type) -> int | None:
    match = _INTEGER.fullmatch(text)
    if match is None or len(match[2]) > 19:
        return None
    value = int(match[1] + match[2])
    low, high = _RANGES[sql_type.kind]
    return value if low <= value <= high else None


def _double(text: str, _: Type) -> float | None:
    return float(text) if _DOUBLE.fullmatch(text) else None


def _decimal(text: str, sql_type: Type) -> Decimal | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return exact_decimal(Decimal(text), sql_type)
    except InvalidOperation:  # an exponent of twenty digits
        return None


def number_of(text: str) -> Decimal | None:
    """Parse a number, with all of its places."""
    trimmed = text.strip(SPACES)
    try:
        return Decimal(trimmed) if _NUMBER.fullmatch(trimmed) else None
    except InvalidOperation:  # an exponent of twenty digits
        return None


def day_of(text: str) -> int | None:
    """The day of a time as written: zones do not move it.

    >>> day_of("1970-01-02 23:30:00-05:00")
    1
    """
    trimmed = text.strip(SPACES)
    return None if _timestamp(trimmed, TIMESTAMP) is None else _date(trimmed[:10], DATE)


def _binary(text: str, _: Type) -> bytes | None:
    match = _HEX.fullmatch(text)
    return bytes.fromhex(match[1]) if match else None


def _date(text: str, _: Type) -> int | None:
    match = _DATE.fullmatch(text)
    return _days(match) if match else None


def _days(match: re.Match[str]) -> int | None:
    try:
        day = datetime.date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:  # there is no such day
        return None
    return day.toordinal() - _EPOCH


def _timestamp(text: str, _: Type) -> int | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (days := _days(match)) is None:
        return None
    hour, minute, second = (int(match[group] or 0) for group in (4, 5, 6))
    zone_hour, zone_minute = (int(match[group] or 0) for group in (10, 11))
    if max(hour, zone_hour) > 23 or max(minute, second, zone_minute) > 59:
        return None
    minutes = hour * 60 + minute
    offset = zone_hour * 60 + zone_minute
    minutes += offset if match[9] == "-" else -offset
    microseconds = int((match[7] or "").ljust(6, "0"))
    return (
        days * DAY
        + minutes * MICROSECONDS["MINUTE"]
        + second * MICROSECONDS["SECOND"]
        + microseconds
    )


_PARSERS: dict[Kind, Callable[[str, Type], Any | None]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: _integer,
    Kind.BIGINT: _integer,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.BINARY: _binary,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}


# Columns of text, read as a declared type: by Arrow at once, or cell by cell if a cell is odd.
#
# Arrow's casts are not exactly the rules of cells: they are stricter (no spaces, no `yes`),
# which only costs time, and here and there laxer, which the guards below catch.

_FIRST_DAY = -719_162  # 0001-01-01; Arrow also knows a year 0
_TO_THE_MICROSECOND = len("2026-01-31T23:59:59.123456")
_FINER = r"(:[0-9]{2}\.[0-9]{6})[0-9]+"  # digits behind the microsecond, which are cut off


def parse_column(texts: pa.StringArray, sql_type: Type) -> Converted:
    """Parse a column. Returns it with a mask of the cells that could not be read, which are NULL in
    it."""
    whole = parse_whole(texts, sql_type)
    return parse_cells(texts, sql_type) if whole is None else all_good(whole)


def parse_whole(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    """Parse a column by Arrow, if it reads every cell as the rules demand."""
    if sql_type.kind is Kind.STRING:
        return texts
    parser = _WHOLE.get(sql_type.kind)
    try:
        return parser(texts, sql_type) if parser else None
    except pa.ArrowInvalid:
        return None


def parse_cells(texts: pa.StringArray, sql_type: Type) -> Converted:
    cells = texts.to_pylist()
    values = [None if text is None else parse_cell(text, sql_type) for text in cells]
    column = to_arrow(values, sql_type)
    bad = np.fromiter(
        (value is None and text is not None for value, text in zip(values, cells, strict=True)),
        dtype=np.bool_,
        count=len(cells),
    )
    return column, bad


def _cast(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    return texts.cast(sql_type.arrow)


def _integers(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    # Arrow takes hexadecimal digits after 0x.
    return None if _holds(texts, "x", "X") else texts.cast(sql_type.arrow)


def _doubles(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    # Arrow takes C's nan(...).
    return None if _holds(texts, "(") else texts.cast(sql_type.arrow)


def _decimals(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    # Arrow's 128 bits wrap around without a word when shifting the digits to the scale takes more.
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest + sql_type.scale > 38 or _holds(texts, "e", "E"):
        return None
    return texts.cast(sql_type.arrow)


def _dates(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    if sql_type.epoch is not None and (counted := _counted(texts, sql_type)) is not None:
        return counted
    days = texts.cast(sql_type.arrow)
    lowest = pc.min(days.cast(pa.int32())).as_py()
    return days if lowest is None or lowest >= _FIRST_DAY else None


def _counted(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    """Convert a column of times that are counted, if all cells are numbers."""
    try:
        return from_texts(texts, sql_type)
    except pa.ArrowInvalid:
        return None


def _timestamps(texts: pa.StringArray, sql_type: Type) -> pa.Array | None:
    if sql_type.epoch is not None and (counted := _counted(texts, sql_type)) is not None:
        return counted
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _TO_THE_MICROSECOND:
        texts = pc.replace_substring_regex(texts, _FINER, r"\1")
    try:
        moments = texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:  # Arrow wants to know beforehand whether there are zones
        moments = texts.cast(sql_type.arrow)
    lowest = pc.min(moments.cast(pa.int64())).as_py()
    # A day's margin, because a zone may move the first moment of the year 1.
    if lowest is not None and lowest < (_FIRST_DAY + 1) * 86_400_000_000:
        return None
    return moments.cast(sql_type.arrow)


def _holds(texts: pa.StringArray, *letters: str) -> bool:
    return any(pc.any(pc.match_substring(texts, letter)).as_py() for letter in letters)


_WHOLE: dict[Kind, Callable[[pa.StringArray, Type], pa.Array | None]] = {
    Kind.BOOLEAN: _cast,
    Kind.INT: _integers,
    Kind.BIGINT: _integers,
    Kind.DOUBLE: _doubles,
    Kind.DECIMAL: _decimals,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _timestamps,
}
