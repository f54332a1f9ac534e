"""Rounding, the sign, roots, powers and logarithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import (
    column_of,
    holds_somewhere,
    values_of,
)
from penstock.expressions.node import Builder, Kernel, always, arrow, same, too_large
from penstock.expressions.numbers.decimals import (
    divide_half_up,
    fits,
    from_unscaled,
    is_small,
    round_wide,
    unscaled,
    widen,
)
from penstock.expressions.numbers.rounding import round_doubles
from penstock.model.arrays import Floats, Ints
from penstock.model.types import BIGINT, DOUBLE, INT64_MAX, Kind, Type
from penstock.plan.expressions import Call, Literal

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


def _to_whole(name: str, of_doubles: Callable[[Floats], Floats], sign: int) -> Builder:
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
    """C says that −0.0 to the power of −1 is −∞, the reference that it is ∞."""
    column = _POWER(base, exponent)
    values: Floats = values_of(column, DOUBLE)
    if not np.isinf(values).any():
        return column
    bases = values_of(base, DOUBLE) if isinstance(base, pa.Array) else base.as_py()
    return column_of(np.where(np.isinf(values) & (bases == 0), np.inf, values), DOUBLE, column)


NUMBERS: dict[str, Builder] = {
    "sign": _sign,
    "round": _round,
    "floor": _to_whole("floor", np.floor, 1),
    "ceil": _to_whole("ceil", np.ceil, -1),
    "sqrt": always(arrow("sqrt")),
    "exp": always(arrow("exp")),
    "ln": always(arrow("ln")),
    "log10": always(arrow("log10")),
    "log2": always(arrow("log2")),
    "power": always(_power),
}
