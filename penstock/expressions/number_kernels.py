"""Numeric functions on whole columns: rounding, roots, powers and logarithms; bits and angles.

Doubles are rounded by their decimal notation, halves away from zero: 2.675 becomes 2.68, as in
Spark, Flink and DuckDB, though the double is a little less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.arithmetic import (
    divide_half_up,
    fits,
    from_unscaled,
    is_small,
    round_wide,
    unscaled,
    widen,
)
from penstock.expressions.columns import (
    Builder,
    Kernel,
    always,
    arrow,
    by_rows,
    column_of,
    holds_somewhere,
    ints_of,
    same,
    too_large,
    values_of,
)
from penstock.model.arrays import Floats, Ints
from penstock.model.types import BIGINT, DOUBLE, INT64_MAX, Kind, Type
from penstock.plan.expressions import Call, Literal

_WHOLE = 2.0**53  # from here on, doubles have no places
_TOLD_APART = 2.0**50  # halves below have so few digits that no two are the same double


def round_doubles(call: Call, places: int) -> Kernel | None:
    """Kernel that rounds to so many places; None where doubles are not exact enough for that."""
    if places == 0:
        return _kernel(_to_whole)
    if 0 < places <= 22:  # powers of ten that doubles hold exactly
        return _to_places(call, places)
    if -15 <= places < 0:
        return _to_zeros(call, 10.0**-places)
    return None


def _kernel(round_sizes: Callable[[Floats], Floats]) -> Kernel:
    @np.errstate(over="ignore", invalid="ignore")
    def kernel(column: pa.Array, *_: pa.Scalar) -> pa.Array:
        values: Floats = values_of(column, DOUBLE)
        return column_of(np.copysign(round_sizes(np.abs(values)), values), DOUBLE, column)

    return kernel


def _to_whole(sizes: Floats) -> Floats:
    whole = np.trunc(sizes)
    return np.where(sizes < _WHOLE, whole + (sizes - whole >= 0.5), sizes)


def _to_places(call: Call, places: int) -> Kernel:
    """Multiply by the power of ten, round and divide again."""
    rows, power = by_rows(call), 10.0**places

    @np.errstate(over="ignore", invalid="ignore")
    def kernel(column: pa.Array, given: pa.Scalar) -> pa.Array:
        values: Floats = values_of(column, DOUBLE)
        sizes = np.abs(values)
        product = sizes * power
        whole = np.floor(product)
        up = product - whole >= 0.5
        close = np.abs(product - whole - 0.5) <= product * 2.0**-51
        if close.any():
            if (close & (product >= _TOLD_APART) & (product < _WHOLE)).any():
                return rows(column, given)
            up = np.where(close, sizes >= (2 * whole + 1) / (2 * power), up)
        whole += up
        rounded = np.where(product < _WHOLE, whole / power, sizes)
        return column_of(np.copysign(rounded, values), DOUBLE, column)

    return kernel


def _to_zeros(call: Call, power: float) -> Kernel:
    """Round to a multiple of a power of ten, if all numbers are small enough to do it exactly."""
    rows = by_rows(call)

    def round_sizes(sizes: Floats) -> Floats:
        rest = np.fmod(sizes, power)
        return sizes - rest + np.where(rest * 2 >= power, power, 0.0)

    small = _kernel(round_sizes)

    @np.errstate(invalid="ignore")
    def kernel(column: pa.Array, places: pa.Scalar) -> pa.Array:
        sizes = np.abs(values_of(column, DOUBLE))
        return (small if (sizes < _WHOLE).all() else rows)(column, places)

    return kernel


# Rounding, the sign, roots, powers and logarithms.

_POWER = arrow("power")
_SIGN = arrow("sign")


# --- round ---------------------------------------------------------------------------------------


def _round(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    given = call.arguments[0].type
    if len(literals) == 2 and literals[1] is None:
        return None
    places = literals[1].value if len(literals) == 2 and literals[1] else 0
    match given.kind:
        case Kind.DOUBLE:
            return round_doubles(call, places)
        case Kind.DECIMAL:
            return _round_decimals(given, call.type, places)
        case _:
            return same if places >= 0 else _round_integers(given, -places)


def _round_integers(sql_type: Type, zeros: int) -> Kernel:
    if zeros > 19:  # more digits than there are
        return lambda column, *_: column_of(np.zeros(len(column)), sql_type, column)
    step = np.uint64(10**zeros)

    def kernel(column: pa.Array, *_: pa.Scalar) -> pa.Array:
        values: Ints = values_of(column, sql_type).astype(np.int64, copy=False)
        sizes = np.abs(values).view(np.uint64)  # of −2⁶³ too, whose size is only unsigned
        rounded = (sizes + step // 2) // step * step
        most = 2**31 - 1 if sql_type.kind is Kind.INT else INT64_MAX
        if holds_somewhere(rounded > np.uint64(most) + (values < 0), column):
            raise too_large(sql_type)
        signed = np.where(values < 0, -rounded.view(np.int64), rounded.view(np.int64))
        return column_of(signed, sql_type, column)

    return kernel


def _round_decimals(given: Type, result: Type, places: int) -> Kernel:
    if places >= given.scale:
        return same if given == result else lambda column, *_: column.cast(result.arrow)
    if -places > given.precision - given.scale:  # less than half of the place, whatever it is
        return lambda column, *_: from_unscaled(np.zeros(len(column), np.int64), result, column)
    if is_small(given):
        return _round_small(given, result, places)
    return lambda column, *_: round_wide(widen(column, given.scale), places).cast(result.arrow)


def _round_small(given: Type, result: Type, places: int) -> Kernel:
    step, shift = 10 ** (given.scale - places), 10 ** (result.scale - places)

    def kernel(column: pa.Array, *_: pa.Scalar) -> pa.Array:
        rounded = divide_half_up(unscaled(column), step) * shift
        if holds_somewhere(~fits(rounded, result.precision), column):
            raise too_large(result)
        return from_unscaled(rounded, result, column)

    return kernel


# --- floor and ceil ------------------------------------------------------------------------------


def _to_integral(name: str, of_doubles: Callable[[Floats], Floats], sign: int) -> Builder:
    wide = arrow(name)

    @np.errstate(invalid="ignore")
    def doubles(column: pa.Array) -> pa.Array:
        # Adding 0.0 makes 0.0 of −0.0: the reference goes through whole numbers.
        return column_of(of_doubles(values_of(column, DOUBLE)) + 0.0, DOUBLE, column)

    def build(call: Call, _: Sequence[Literal | None]) -> Kernel:
        given = call.arguments[0].type
        if given.kind is Kind.DOUBLE:
            return doubles
        if given.kind is not Kind.DECIMAL:
            return same
        if is_small(given):
            # // goes down; twice the other sign, it goes up.
            return lambda column: from_unscaled(
                sign * (sign * unscaled(column) // 10**given.scale), call.type, column
            )
        return lambda column: wide(widen(column, given.scale)).cast(call.type.arrow)

    return build


# --- signs, powers -------------------------------------------------------------------------------


def _sign(call: Call, _: Sequence[Literal | None]) -> Kernel:
    given = call.arguments[0].type
    if given.kind is Kind.DECIMAL:
        return _SIGN if not is_small(given) else _sign_of(unscaled)
    return _sign_of(lambda column: values_of(column, given))


def _sign_of(numbers: Callable[[pa.Array], Ints | Floats]) -> Kernel:
    @np.errstate(invalid="ignore")
    def kernel(column: pa.Array) -> pa.Array:
        values = numbers(column)
        return column_of((values > 0).astype(np.int64) - (values < 0), BIGINT, column)

    return kernel


@np.errstate(invalid="ignore")
def _power(base: pa.Array | pa.Scalar, exponent: pa.Array | pa.Scalar) -> pa.Array:
    """Power, corrected at zero: by C, −0.0 to the power of −1 is −∞, by the reference it is ∞."""
    column = _POWER(base, exponent)
    values: Floats = values_of(column, DOUBLE)
    if not np.isinf(values).any():
        return column
    bases = values_of(base, DOUBLE) if isinstance(base, pa.Array) else base.as_py()
    return column_of(np.where(np.isinf(values) & (bases == 0), np.inf, values), DOUBLE, column)


NUMBERS: dict[str, Builder] = {
    "sign": _sign,
    "round": _round,
    "floor": _to_integral("floor", np.floor, 1),
    "ceil": _to_integral("ceil", np.ceil, -1),
    "sqrt": always(arrow("sqrt")),
    "exp": always(arrow("exp")),
    "ln": always(arrow("ln")),
    "log10": always(arrow("log10")),
    "log2": always(arrow("log2")),
    "power": always(_power),
}


# Bits and angles of whole columns.


def _shift(left: bool) -> Kernel:
    def kernel(numbers: pa.Array | pa.Scalar, places: pa.Array | pa.Scalar) -> pa.Array:
        values, by = ints_of(numbers, BIGINT), ints_of(places, BIGINT)
        far = np.atleast_1d((by < 0) | (by > 63))
        if holds_somewhere(np.broadcast_to(far, np.broadcast(values, by).shape), numbers, places):
            raise RunError("bits are moved by too many places")
        by = np.clip(by, 0, 63)
        return column_of(values << by if left else values >> by, BIGINT, numbers, places)

    return kernel


def _bit_count(column: pa.Array) -> pa.Array:
    counts = np.bitwise_count(values_of(column, BIGINT).view(np.uint64))
    return column_of(counts.astype(np.int64), BIGINT, column)


def _times(factor: float) -> Kernel:
    def kernel(column: pa.Array) -> pa.Array:
        with np.errstate(invalid="ignore", over="ignore"):
            return column_of(values_of(column, DOUBLE) * factor, DOUBLE, column)

    return kernel


BITS: dict[str, Builder] = {
    "bitand": always(arrow("bit_wise_and")),
    "bitor": always(arrow("bit_wise_or")),
    "bitxor": always(arrow("bit_wise_xor")),
    "bitnot": always(arrow("bit_wise_not")),
    "bit_count": always(_bit_count),
    "shiftleft": always(_shift(left=True)),
    "shiftright": always(_shift(left=False)),
}
TRIGONOMETRY: dict[str, Builder] = {
    **{
        name: always(arrow(name))
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "atan2")
    },
    **{name: always(arrow(name)) for name in ("asinh", "acosh", "atanh", "expm1", "log1p")},
    "degrees": always(_times(180.0 / math.pi)),
    "radians": always(_times(math.pi / 180.0)),
}
