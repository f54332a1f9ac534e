"""Columns of Python objects, read as a declared type: by Arrow at once where all have its class.

Arrow alone would be too obliging (it makes 1 of 1.5 and text of bytes), hence the look at the
classes; cell by cell, everything that means the same is taken.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.duration import DAY
from penstock.model.plain_values import to_arrow
from penstock.model.row_form import Values
from penstock.model.types import EPOCHS, INT64_MAX, INT64_MIN, Kind, Type
from penstock.sources.fitting.cells import exact_decimal, how_counted, parse_cell, why_bad
from penstock.sources.fitting.columns import Converted, all_good
from penstock.sources.fitting.epochs import from_doubles, from_integers, moment_of
from penstock.sources.fitting.text import parse_column
from penstock.sources.reasons import does_not_fit, is_not, quoted

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EXACT_DOUBLE = 2**53
_FINER = ("ns", "ps", "fs", "as")  # units of NumPy
_INTS: dict[Kind, tuple[int, int]] = {
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (INT64_MIN, INT64_MAX),
}
_AT_ONCE: dict[Kind, set[type]] = {
    Kind.BOOLEAN: {bool},
    Kind.INT: {int},
    Kind.BIGINT: {int},
    Kind.DOUBLE: {float, int},
    Kind.STRING: {str},
    Kind.BINARY: {bytes},
    Kind.DATE: {datetime.date},
    Kind.TIMESTAMP: {datetime.datetime},
}
_FAILURES = (pa.ArrowException, OverflowError, UnicodeEncodeError, ValueError, TypeError)


def fit_objects(values: Sequence[object], sql_type: Type) -> Converted:
    """The column and a mask of the values that are not of the type, which are NULL in it."""
    classes = set(map(type, values)) - {type(None)}
    try:
        if classes <= _AT_ONCE.get(sql_type.kind, set()):
            return all_good(pa.array(values, sql_type.arrow))
        if classes == {str} and sql_type.kind in (Kind.DATE, Kind.TIMESTAMP):
            return parse_column(pa.array(values, pa.string()), sql_type)
        if classes == {int} and sql_type.epoch is not None:
            return all_good(from_integers(pa.array(values, pa.int64()), sql_type))
        if classes == {float} and sql_type.epoch is not None:
            return all_good(from_doubles(pa.array(values, pa.float64()), sql_type))
        if classes == {float} and sql_type.kind is Kind.DECIMAL:
            texts = [None if value is None else repr(value) for value in values]
            return parse_column(pa.array(texts, pa.string()), sql_type)
    except _FAILURES:
        pass  # a value that does not fit: find it below
    cells = [plain_value(value, sql_type) for value in values]
    bad = np.fromiter((cell is BAD for cell in cells), dtype=np.bool_, count=len(cells))
    return to_arrow([None if cell is BAD else cell for cell in cells], sql_type), bad


def fit_row(values: Sequence[object], types: Sequence[Type]) -> Values | None:
    """One row as plain values, if it is all of the usual classes; None: it needs a closer look."""
    found = []
    for value, sql_type in zip(values, types, strict=True):
        if value is not None:
            if type(value) not in _AT_ONCE.get(sql_type.kind, ()):
                return None
            value = plain_value(value, sql_type)
            if value is BAD:
                return None
        found.append(value)
    return tuple(found)


def why_misfit(value: object, sql_type: Type) -> str:
    """Why a value is not of the type."""
    scalar = scalar_of(value)
    if isinstance(scalar, str) and sql_type.kind in (Kind.DATE, Kind.TIMESTAMP):
        return why_bad(scalar, sql_type)
    found = f"the {type(value).__name__} {quoted(scalar)}"
    exact = isinstance(scalar, int | Decimal) and not isinstance(scalar, bool)
    if isinstance(scalar, float) and sql_type.kind is Kind.DECIMAL:
        exact = isfinite(scalar)
    if (sql_type.is_number or sql_type.epoch is not None) and exact:
        return does_not_fit(found, sql_type)
    reason = is_not(found, sql_type)
    if sql_type.kind in EPOCHS and (exact or (isinstance(scalar, float) and isfinite(scalar))):
        reason += f": {how_counted(str(scalar), sql_type)}"
    return reason


BAD: Any = object()


def plain_value(value: object, sql_type: Type) -> Any:
    """The value as those of the type are written, or `BAD` if it is none."""
    value = scalar_of(value)
    if value is None:
        return None
    if sql_type.is_nested:
        return _nested(value, sql_type)
    reader = _READERS.get(sql_type.kind)
    return reader(value, sql_type) if reader else BAD


def _nested(value: object, sql_type: Type) -> Any:
    """Lists and tuples are ARRAYs, dicts are STRUCTs or MAPs, pairs MAPs; all parts, or none."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    parts = [part for _, part in sql_type.parts]
    made: tuple[Any, ...]
    if sql_type.kind is Kind.MAP:
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list | tuple) or any(
            not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs
        ):
            return BAD
        made = tuple((plain_value(k, parts[0]), plain_value(v, parts[1])) for k, v in pairs)
        bad = any(k is BAD or k is None or v is BAD for k, v in made)
        return BAD if bad else made
    if sql_type.kind is Kind.ARRAY and isinstance(value, list | tuple):
        made = tuple(plain_value(each, parts[0]) for each in value)
    elif sql_type.kind is Kind.STRUCT and isinstance(value, Mapping):
        made = tuple(plain_value(value.get(name), part) for name, part in sql_type.parts)
    else:
        return BAD
    return BAD if any(each is BAD for each in made) else made


def scalar_of(value: object) -> object:
    """NumPy's scalars as Python's, and the NaT of pandas and NumPy as None."""
    if isinstance(value, np.datetime64):
        return _moment(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.datetime) and value != value:  # only NaT differs from itself
        return None
    return value


def _moment(value: np.datetime64) -> object:
    """A date or a naive datetime; what is finer than a microsecond is cut off."""
    unit = np.datetime_data(value.dtype)[0]
    if np.isnat(value) or unit == "D":
        return value.item()
    micros = value.astype("datetime64[us]")
    return micros.item() if unit in _FINER or micros == value else value


def _boolean(value: object, _: Type) -> Any:
    return value if isinstance(value, bool) else BAD


def _integer(value: object, sql_type: Type) -> Any:
    low, high = _INTS[sql_type.kind]
    whole = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    return value if whole else BAD


def _double(value: object, _: Type) -> Any:
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _EXACT_DOUBLE:
        return float(value)
    return BAD


def _decimal(value: object, sql_type: Type) -> Any:
    if isinstance(value, float):  # as it is written, which is how JSON would have it
        exact = parse_cell(float.__repr__(value), sql_type)
        return BAD if exact is None else exact
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        return BAD
    exact = exact_decimal(Decimal(value), sql_type)
    return BAD if exact is None else exact


def _string(value: object, _: Type) -> Any:
    if not isinstance(value, str):
        return BAD
    try:
        value.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return BAD
    return value


def _binary(value: object, _: Type) -> Any:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else BAD


def _date(value: object, sql_type: Type) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.toordinal() - _EPOCH.toordinal()
    return _text_or_number(value, sql_type)


def _timestamp(value: object, sql_type: Type) -> Any:
    if isinstance(value, datetime.datetime):
        if value.utcoffset() is None:
            value = value.replace(tzinfo=datetime.UTC)
        return int((value - _EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return (value.toordinal() - _EPOCH.toordinal()) * DAY
    return _text_or_number(value, sql_type)


def _text_or_number(value: object, sql_type: Type) -> Any:
    """A number means nothing unless the column says what it counts."""
    if isinstance(value, float):
        value = float.__repr__(value)
    if isinstance(value, str):
        parsed = parse_cell(value, sql_type)
        return BAD if parsed is None else parsed
    if sql_type.epoch is None or not isinstance(value, int | Decimal) or isinstance(value, bool):
        return BAD
    moment = moment_of(value, sql_type)
    return BAD if moment is None else moment


_READERS: dict[Kind, Callable[[object, Type], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: _integer,
    Kind.BIGINT: _integer,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.STRING: _string,
    Kind.BINARY: _binary,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}
