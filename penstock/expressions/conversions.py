"""Conversions of whole columns: to texts as the reference evaluator formats single values, between
types, and the kernels of CAST and TRY_CAST.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.arithmetic import (
    DIGITS,
    divide_half_up,
    fits,
    from_unscaled,
    is_small,
    round_wide,
    unscaled,
    widen,
)
from penstock.expressions.columns import (
    FAILURES,
    Kernel,
    arrow,
    by_rows,
    column_of,
    holds_somewhere,
    ints_of,
    present,
    same,
    values_of,
    without,
    zero_of,
)
from penstock.functions.casts import of_text
from penstock.io.formats.text_values import parse_cells, parse_column, parse_whole
from penstock.model.arrays import Floats, Ints, Mask
from penstock.model.durations import DAY, days_of, format_date, format_timestamp
from penstock.model.types import BIGINT, DOUBLE, INT64_MAX, TIMESTAMP, Kind, Type, as_decimal
from penstock.model.values import to_arrow
from penstock.plan.expressions import Cast

Spelling: TypeAlias = Callable[[pa.Array], pa.Array]

_TEXT = pa.string()
_JOIN = arrow("binary_join_element_wise")
_IF_ELSE = arrow("if_else")
_LESS = arrow("less")
_ABS = arrow("abs")
_NOTHING = pa.scalar("")
_POINT = pa.scalar(".")


def _spell_plain(_: Type) -> Spelling:
    return lambda column: column.cast(_TEXT)


def _spell_doubles(_: Type) -> Spelling:
    return spell_doubles


@np.errstate(all="ignore")
def spell_doubles(column: pa.Array) -> pa.Array:
    """Format like Python's repr: Arrow finds the same digits, but uses exponents elsewhere and
    omits `.0`.

    >>> spell_doubles(pa.array([2.5, 1.0, -0.0, 1e12, 1e-7, None])).to_pylist()
    ['2.5', '1.0', '-0.0', '1000000000000.0', '1e-07', None]
    """
    values: Floats = values_of(column, DOUBLE)
    sizes = np.abs(values)
    texts = column.cast(_TEXT)
    whole = (np.trunc(values) == values) & (sizes < 1e16)
    if whole.any():
        large = whole & (sizes >= 1e10)
        if large.any():
            integers = column_of(np.where(large, values, 0.0), BIGINT, column)
            texts = _IF_ELSE(pa.array(large), integers.cast(_TEXT), texts)
        ending = _IF_ELSE(pa.array(whole), pa.scalar(".0"), _NOTHING)
        texts = _JOIN(texts, ending, _NOTHING)
    plain = whole | ((sizes >= 1e-4) & (sizes < 1e10)) | ~np.isfinite(values)
    if not plain.all():
        odd = ~plain & present(column)
        spelled = pa.array([repr(value) for value in values[odd].tolist()], _TEXT)
        texts = pc.replace_with_mask(texts, pa.array(odd), spelled)
    return texts


def _spell_decimals(given: Type) -> Spelling:
    if given.scale <= 6:  # with more places, Arrow may write 1E-7
        return _spell_plain(given)
    places = given.scale
    pad = arrow("utf8_lpad", pc.PadOptions(places + 1, "0"))
    whole = arrow("utf8_slice_codeunits", pc.SliceOptions(0, -places))
    fraction = arrow("utf8_slice_codeunits", pc.SliceOptions(-places))
    zero = pa.scalar(0, pa.decimal128(38, 0))

    def spell(column: pa.Array) -> pa.Array:
        integers = column.view(pa.decimal128(38, 0))
        digits = pad(_ABS(integers).cast(_TEXT))
        sign = _IF_ELSE(_LESS(integers, zero), pa.scalar("-"), _NOTHING)
        return _JOIN(sign, whole(digits), _POINT, fraction(digits), _NOTHING)

    return spell


# --- times ---------------------------------------------------------------------------------------


def _timestamps(given: Type) -> Spelling:
    plain = pa.timestamp("us")
    put_t = arrow("utf8_replace_slice", pc.ReplaceSliceOptions(10, 11, "T"))
    end = pa.scalar("Z")

    def spell(column: pa.Array) -> pa.Array:
        return _JOIN(put_t(column.view(plain).cast(_TEXT)), end, _NOTHING)

    return _where_years_have_four_digits(spell, format_timestamp, given, DAY)


def _dates(given: Type) -> Spelling:
    return _where_years_have_four_digits(_spell_plain(given), format_date, given, 1)


def _where_years_have_four_digits(
    spell: Spelling, spell_one: Callable[[int], str], given: Type, day: int
) -> Spelling:
    """Format times of the years 0 to 9999 with a kernel, all others one by one."""
    first, end = days_of(0, 1, 1) * day, days_of(10_000, 1, 1) * day

    def kernel(column: pa.Array) -> pa.Array:
        values = values_of(column, given)
        usual = (values >= first) & (values < end)
        if usual.all():
            return spell(column)
        odd = ~usual & present(column)
        texts = spell(column_of(np.where(usual, values, 0), given, column))
        spelled = pa.array([spell_one(value) for value in values[odd].tolist()], _TEXT)
        return pc.replace_with_mask(texts, pa.array(odd), spelled)

    return kernel


SPELLINGS: dict[Kind, Callable[[Type], Spelling]] = {
    Kind.BOOLEAN: _spell_plain,
    Kind.INT: _spell_plain,
    Kind.BIGINT: _spell_plain,
    Kind.DOUBLE: _spell_doubles,
    Kind.DECIMAL: _spell_decimals,
    Kind.BINARY: _spell_plain,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _timestamps,
}


# Conversions of whole columns, with flags of the values that have no counterpart.
#
# Where there are no flags, the conversion of the whole column fails.

Conversion: TypeAlias = tuple[pa.Array, Mask | None]
Converter: TypeAlias = Callable[[pa.Array], Conversion]

_FEW = 16  # texts up to which reading them one by one is faster
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
    """Parse texts that no stream accepts, but CAST does; see `functions.casts.of_text`."""
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
    """Parse dates that are followed by times, if there are no spaces around: the day is the first
    ten characters.
    """
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
    """Convert truth values to numbers."""
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
    """Convert by way of the shortest decimal texts, which have at most 17 digits."""
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


# The kernels of CAST and TRY_CAST, which differ in what happens to values that fail.


def cast_kernel(cast: Cast) -> Kernel | None:
    convert = converter(cast.operand.type, cast.type)
    if convert is None:
        return None
    return _trying(cast, convert) if cast.tries else _insisting(cast, convert)


def _insisting(cast: Cast, convert: Converter) -> Kernel:
    def kernel(column: pa.Array) -> pa.Array:
        converted, failed = convert(column)
        if failed is not None and holds_somewhere(failed, column):
            raise RunError(f"a value cannot be made a {cast.type}")
        return converted

    return kernel


def _trying(cast: Cast, convert: Converter) -> Kernel:
    rows = by_rows(cast)

    def kernel(column: pa.Array) -> pa.Array:
        try:
            converted, failed = convert(column)
        except FAILURES:  # the conversion cannot tell which values it is about
            return rows(column)
        if failed is None or not failed.any():
            return converted
        return without(converted, failed)

    return kernel
