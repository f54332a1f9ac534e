"""Conversions of whole columns, with flags of the values that have no counterpart.

Where flags cannot be had, the conversion of the whole column fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import (
    column_of,
    ints_of,
    present,
    values_of,
)
from penstock.expressions.node import arrow, same, zero_of
from penstock.expressions.numbers.decimals import (
    DIGITS,
    divide_half_up,
    fits,
    from_unscaled,
    is_small,
    round_wide,
    unscaled,
    widen,
)
from penstock.expressions.texts.spelling import SPELLINGS
from penstock.model.arrays import Floats, Ints, Mask
from penstock.model.duration import DAY
from penstock.model.plain_values import to_arrow
from penstock.model.types import BIGINT, INT64_MAX, TIMESTAMP, Kind, Type, as_decimal
from penstock.scalars.casts import of_text
from penstock.sources.fitting.text import parse_cells, parse_column, parse_whole

Conversion: TypeAlias = tuple[pa.Array, Mask | None]
Converter: TypeAlias = Callable[[pa.Array], Conversion]

_FEW = 16  # texts that are read faster one by one than all at once
_LAST_DAY = INT64_MAX // DAY
_WIDE = pa.decimal256(76, 38)  # as many places as a text of 38 characters can have
_NOT_EQUAL = arrow("not_equal")


def converter(given: Type, wanted: Type) -> Converter | None:
    if given == wanted:
        return _never_fails(same)
    if given.is_nested or wanted.is_nested:
        return None
    if given.kind is Kind.STRING:
        return _reading(wanted)
    if wanted.kind is Kind.STRING:
        return _never_fails(SPELLINGS[given.kind](given))
    if wanted.kind is Kind.BOOLEAN:
        zero = zero_of(given)
        return _never_fails(lambda column: _NOT_EQUAL(column, zero))
    make = _CONVERTERS.get((_group(given), _group(wanted)))
    return make(given, wanted) if make else None


def _group(sql_type: Type) -> Kind:
    return Kind.BIGINT if sql_type.kind is Kind.INT else sql_type.kind


def _never_fails(convert: Callable[[pa.Array], pa.Array]) -> Converter:
    return lambda column: (convert(column), None)


def _reading(wanted: Type) -> Converter:
    def convert(column: pa.Array) -> Conversion:
        parse = parse_cells if len(column) <= _FEW else parse_column
        return parse(column, wanted)

    match wanted.kind:
        case Kind.DATE | Kind.DECIMAL:
            at_once = _days_of_times if wanted.kind is Kind.DATE else _rounded_numbers
            return lambda column: _reading_more(column, wanted, at_once)
        case _:
            return convert


def _reading_more(
    column: pa.Array, wanted: Type, at_once: Callable[[pa.Array, Type], pa.Array | None]
) -> Conversion:
    """Texts that no stream takes for such values, but CAST does; see `scalars.casts.of_text`."""
    if len(column) > _FEW:
        for read in (parse_whole, at_once):
            try:
                whole = read(column, wanted)
            except pa.ArrowInvalid:
                continue
            if whole is not None:
                return whole, None
    values = [None if text is None else of_text(text, wanted) for text in column.to_pylist()]
    made = to_arrow(values, wanted)
    return made, present(column) & ~present(made)


def _days_of_times(column: pa.Array, wanted: Type) -> pa.Array | None:
    """Written without spaces around them, so that the day is the first ten characters."""
    if parse_whole(column, TIMESTAMP) is None:
        return None
    return parse_whole(pc.utf8_slice_codeunits(column, 0, 10), wanted)


def _rounded_numbers(column: pa.Array, wanted: Type) -> pa.Array | None:
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest > 38 or pc.any(pc.match_substring(column, "e", ignore_case=True)).as_py():
        return None
    return round_wide(column.cast(_WIDE), wanted.scale).cast(wanted.arrow)


# --- to whole numbers and doubles ----------------------------------------------------------------


def _plain(_: Type, wanted: Type) -> Converter:
    """Truth values to numbers."""
    return _never_fails(lambda column: column.cast(wanted.arrow))


def _integers(given: Type, wanted: Type) -> Converter:
    return lambda column: _whole(values_of(column, given), wanted, column)


def _whole(values: Any, wanted: Type, column: pa.Array) -> Conversion:
    failed = (values < -(2**31)) | (values > 2**31 - 1) if wanted.kind is Kind.INT else None
    return column_of(values, wanted, column), failed


def _truncated(given: Type, wanted: Type) -> Converter:
    # Both ends are doubles: the lowest value, and the first that is too high.
    end = 2.0**31 if wanted.kind is Kind.INT else 2.0**63

    @np.errstate(invalid="ignore")
    def convert(column: pa.Array) -> Conversion:
        values: Floats = np.trunc(values_of(column, given))
        fitting = (values >= -end) & (values < end)
        return column_of(np.where(fitting, values, 0.0), wanted, column), ~fitting

    return convert


def _doubles(given: Type, wanted: Type) -> Converter:
    return _never_fails(lambda column: column_of(values_of(column, given), wanted, column))


def _decimals_to_integers(given: Type, wanted: Type) -> Converter:
    if not is_small(given):
        options = pc.CastOptions(target_type=wanted.arrow, allow_decimal_truncate=True)
        return _never_fails(arrow("cast", options))

    def convert(column: pa.Array) -> Conversion:
        values = unscaled(column)
        return _whole(np.sign(values) * (np.abs(values) // 10**given.scale), wanted, column)

    return convert


def _decimals_to_doubles(given: Type, wanted: Type) -> Converter:
    if given.precision > 15:  # too many digits for a double, so that dividing would round twice
        return _never_fails(lambda column: column.cast(pa.string()).cast(wanted.arrow))
    power = 10.0**given.scale
    return _never_fails(lambda column: column_of(unscaled(column) / power, wanted, column))


# --- to decimals ---------------------------------------------------------------------------------


def _flags_to_decimals(_: Type, wanted: Type) -> Converter:
    convert = _integers_to_decimals(BIGINT, wanted)
    return lambda column: convert(column.cast(pa.int64()))


def _integers_to_decimals(given: Type, wanted: Type) -> Converter:
    if is_small(wanted):
        return lambda column: _scaled_up(ints_of(column, given), wanted.scale, wanted, column)
    exact = as_decimal(given)
    convert = _decimals(exact, wanted)
    return lambda column: convert(from_unscaled(ints_of(column, given), exact, column))


def _scaled_up(values: Ints, by: int, wanted: Type, column: pa.Array) -> Conversion:
    return from_unscaled(values * 10**by, wanted, column), ~fits(values, wanted.precision - by)


def _decimals(given: Type, wanted: Type) -> Converter:
    shift = wanted.scale - given.scale
    if given.precision + max(0, shift) <= DIGITS:
        if shift >= 0:
            return lambda column: _scaled_up(unscaled(column), shift, wanted, column)
        return _rounded(10**-shift, wanted)
    if shift >= 0 and wanted.precision - shift >= given.precision:
        return _never_fails(lambda column: column.cast(wanted.arrow))
    scale = max(given.scale, wanted.scale)

    def convert(column: pa.Array) -> pa.Array:
        wide = widen(column, scale)
        return (wide if shift >= 0 else round_wide(wide, wanted.scale)).cast(wanted.arrow)

    return _never_fails(convert)


def _rounded(step: int, wanted: Type) -> Converter:
    def convert(column: pa.Array) -> Conversion:
        values = divide_half_up(unscaled(column), step)
        return from_unscaled(values, wanted, column), ~fits(values, wanted.precision)

    return convert


def _doubles_to_decimals(given: Type, wanted: Type) -> Converter:
    """By their shortest decimal texts, which have at most 17 digits."""
    end = 10.0 ** (wanted.precision - wanted.scale)
    tiny = 10.0 ** -(wanted.scale + 1)  # rounds to 0, and may need any number of places
    exact = pa.decimal256(76, wanted.scale + 18)

    @np.errstate(invalid="ignore")
    def convert(column: pa.Array) -> Conversion:
        values: Floats = values_of(column, given)
        sizes = np.abs(values)
        failed = ~(sizes < end)
        kept = column_of(np.where(failed | (sizes < tiny), 0.0, values), given, column)
        wide = kept.cast(pa.string()).cast(exact)
        return round_wide(wide, wanted.scale).cast(wanted.arrow), failed

    return convert


# --- times ---------------------------------------------------------------------------------------


def _to_midnight(given: Type, wanted: Type) -> Converter:
    def convert(column: pa.Array) -> Conversion:
        days = ints_of(column, given)
        return column_of(days * DAY, wanted, column), np.abs(days) > _LAST_DAY

    return convert


def _to_day(given: Type, wanted: Type) -> Converter:
    return _never_fails(lambda column: column_of(values_of(column, given) // DAY, wanted, column))


_CONVERTERS: dict[tuple[Kind, Kind], Callable[[Type, Type], Converter]] = {
    (Kind.BOOLEAN, Kind.BIGINT): _plain,
    (Kind.BOOLEAN, Kind.DOUBLE): _plain,
    (Kind.BOOLEAN, Kind.DECIMAL): _flags_to_decimals,
    (Kind.BIGINT, Kind.BIGINT): _integers,
    (Kind.BIGINT, Kind.DOUBLE): _doubles,
    (Kind.BIGINT, Kind.DECIMAL): _integers_to_decimals,
    (Kind.DOUBLE, Kind.BIGINT): _truncated,
    (Kind.DOUBLE, Kind.DECIMAL): _doubles_to_decimals,
    (Kind.DECIMAL, Kind.BIGINT): _decimals_to_integers,
    (Kind.DECIMAL, Kind.DOUBLE): _decimals_to_doubles,
    (Kind.DECIMAL, Kind.DECIMAL): _decimals,
    (Kind.DATE, Kind.TIMESTAMP): _to_midnight,
    (Kind.TIMESTAMP, Kind.DATE): _to_day,
}
