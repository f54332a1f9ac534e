"""Columns as texts, spelled as the reference spells single values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import (
    column_of,
    present,
    values_of,
)
from penstock.expressions.node import arrow
from penstock.model.arrays import Floats
from penstock.model.calendar import days_of, format_date, format_timestamp
from penstock.model.duration import DAY
from penstock.model.types import BIGINT, DOUBLE, Kind, Type

Spelling: TypeAlias = Callable[[pa.Array], pa.Array]

_TEXT = pa.string()
_JOIN = arrow("binary_join_element_wise")
_IF_ELSE = arrow("if_else")
_LESS = arrow("less")
_ABS = arrow("abs")
_NOTHING = pa.scalar("")
_POINT = pa.scalar(".")


def _plain(_: Type) -> Spelling:
    return lambda column: column.cast(_TEXT)


def _doubles(_: Type) -> Spelling:
    return spell_doubles


@np.errstate(all="ignore")
def spell_doubles(column: pa.Array) -> pa.Array:
    """As Python's repr: Arrow finds the same digits, but puts exponents elsewhere and omits `.0`.

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


def _decimals(given: Type) -> Spelling:
    if given.scale <= 6:  # with more places, Arrow may write 1E-7
        return _plain(given)
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
    return _where_years_have_four_digits(_plain(given), format_date, given, 1)


def _where_years_have_four_digits(
    spell: Spelling, spell_one: Callable[[int], str], given: Type, day: int
) -> Spelling:
    """From the years 0 to 9999 at once, any others one by one."""
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
    Kind.BOOLEAN: _plain,
    Kind.INT: _plain,
    Kind.BIGINT: _plain,
    Kind.DOUBLE: _doubles,
    Kind.DECIMAL: _decimals,
    Kind.BINARY: _plain,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _timestamps,
}
