"""Arithmetic on whole columns: `+ - * / DIV %`, negation and abs, on numbers and on times; and
exact decimals.

Up to 18 digits, a DECIMAL is a 64-bit integer, and NumPy does what Arrow does slowly or wrongly
(its decimals to doubles are not always the nearest, and rounding beyond the precision silently
gives 0). Where 38 digits may not be enough for an intermediate result, Arrow computes with 76.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import (
    Builder,
    Kernel,
    all_null,
    arrow,
    as_int64,
    column_of,
    fixed_width,
    from_values,
    ints_of,
    narrowed,
    scalar_of,
    values_of,
    zero_of,
)
from penstock.model.arrays import Ints, Mask
from penstock.model.types import BIGINT, DATE, DOUBLE, Kind, Type
from penstock.model.values import to_arrow
from penstock.plan.expressions import Call, Literal

MOST = 38  # digits of a DECIMAL
DIGITS = 18  # number of any decimal digits that fit into an int64
_PAIR = np.dtype((np.int64, 2))  # the low and the high half of a 128-bit integer
_WIDE = 76
_KERNELS = {name: arrow(name) for name in ("add", "subtract", "multiply", "negate", "abs")}


def is_small(sql_type: Type) -> bool:
    return sql_type.precision <= DIGITS


def unscaled(column: pa.Array) -> Ints:
    """Integers that stand for decimals, without the point; for small types only."""
    integers: Ints = fixed_width(column, _PAIR)[:, 0]
    return integers


def from_unscaled(integers: Ints, sql_type: Type, *inputs: pa.Array | pa.Scalar) -> pa.Array:
    """The inverse of `unscaled`.

    >>> from penstock.model.types import decimal_type
    >>> from_unscaled(np.array([-150, 7]), decimal_type(20, 2)).to_pylist()
    [Decimal('-1.50'), Decimal('0.07')]
    """
    pairs = np.empty((len(integers), 2), np.int64)
    pairs[:, 0] = integers
    pairs[:, 1] = integers >> 63
    return from_values(pairs, sql_type, *inputs)


def fits(integers: Ints, digits: int) -> Mask:
    """Select the integers that have at most so many digits."""
    if digits > DIGITS:
        return np.ones(len(integers), np.bool_)
    fitting: Mask = (integers < 10**digits) & (integers > -(10**digits))
    return fitting


def divide_half_up(integers: Ints, by: int) -> Ints:
    """Divide to the nearest, halves away from zero; for at most 18 digits.

    >>> divide_half_up(np.array([15, -15, 14]), 10)
    array([ 2, -2,  1])
    """
    sizes = (np.abs(integers) + by // 2) // by
    return np.where(integers < 0, -sizes, sizes)


def widen(column: pa.Array, scale: int) -> pa.Array:
    """Convert to 76 digits, which leave room for a larger scale, and for rounding up to one digit
    more.
    """
    return column.cast(pa.decimal256(_WIDE, scale))


def round_wide(column: pa.Array, places: int) -> pa.Array:
    """Round a widened column to the nearest, halves away from zero."""
    return pc.round(column, ndigits=places, round_mode="half_towards_infinity")


# --- arithmetic ----------------------------------------------------------------------------------


def decimal_arithmetic(name: str, call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    types = [argument.type for argument in call.arguments]
    if any(sql_type.kind is not Kind.DECIMAL for sql_type in types):
        return None
    if name in ("div", "mod"):
        return _integer_division(name, call)
    kernel = _KERNELS[name]
    if name in ("negate", "abs"):
        return kernel
    needed = _digits_of_result(name, types[0], types[1])
    return kernel if needed <= MOST else _with_room(kernel, call, literals)


def _digits_of_result(name: str, left: Type, right: Type) -> int:
    """Precision that Arrow gives the result."""
    if name == "multiply":
        return left.precision + right.precision + 1
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return whole + max(left.scale, right.scale) + 1


def _with_room(kernel: Kernel, call: Call, literals: Sequence[Literal | None]) -> Kernel:
    wide = [_widening(argument.type) for argument in call.arguments]
    scalars = [
        None if literal is None else widening(to_arrow([literal.value], literal.type))[0]
        for widening, literal in zip(wide, literals, strict=True)
    ]
    result = call.type.arrow

    def exact(*data: pa.Array | pa.Scalar) -> pa.Array:
        left, right = (
            widening(datum) if constant is None else constant
            for constant, widening, datum in zip(scalars, wide, data, strict=True)
        )
        return kernel(left, right).cast(result)

    return exact


def _widening(sql_type: Type) -> Callable[[pa.Array], pa.Array]:
    # Two numbers of 38 digits have a product of 76, but Arrow wants one more.  Saying that one has
    # 37 is harmless, as no kernel looks at the precision of its input.
    exact = pa.decimal256(sql_type.precision, sql_type.scale)
    said = pa.decimal256(min(sql_type.precision, MOST - 1), sql_type.scale)
    return lambda column: column.cast(exact).view(said)


def _integer_division(name: str, call: Call) -> Kernel | None:
    """Kernel for DIV and % of small decimals, on integers of one scale."""
    left, right = (argument.type for argument in call.arguments)
    scale = max(left.scale, right.scale)
    if max(each.precision + scale - each.scale for each in (left, right)) > DIGITS:
        return None

    def integers(datum: pa.Array | pa.Scalar, sql_type: Type) -> Ints:
        if isinstance(datum, pa.Scalar):
            return np.asarray(int(datum.as_py().scaleb(scale)))
        scaled: Ints = unscaled(datum) * 10 ** (scale - sql_type.scale)
        return scaled

    @np.errstate(divide="ignore")  # zeros may lie under NULLs
    def kernel(one: pa.Array | pa.Scalar, other: pa.Array | pa.Scalar) -> pa.Array:
        dividends, divisors = integers(one, left), integers(other, right)
        rest: Ints = np.fmod(dividends, divisors)
        wanted = rest if name == "mod" else (dividends - rest) // divisors
        return from_unscaled(wanted, call.type, one, other)

    return kernel


# `+ - * / DIV %`, negation and abs, on numbers and on times.
#
# Whole numbers and times are checked for overflow; division by zero gives NULL.

_CHECKED = {
    "add": arrow("add_checked"),
    "subtract": arrow("subtract_checked"),
    "multiply": arrow("multiply_checked"),
    "div": arrow("divide_checked"),
    "negate": arrow("negate_checked"),
    "abs": arrow("abs_checked"),
}
_DOUBLE = {
    "add": arrow("add"),
    "subtract": arrow("subtract"),
    "multiply": arrow("multiply"),
    "divide": arrow("divide"),
    "negate": arrow("negate"),
    "abs": arrow("abs"),
}
_IF_ELSE = arrow("if_else")
_EQUAL = arrow("equal")


def _arithmetic(name: str) -> Builder:
    def build(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
        kernel = _operation(name, call, literals)
        if name not in ("divide", "div", "mod") or kernel is None:
            return kernel
        divisor = literals[1]
        if divisor is None:
            return _skipping_zeros(kernel, call.arguments[1].type)
        return kernel if divisor.value else all_null(call.type)

    return build


def _operation(name: str, call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    kinds = [argument.type.kind for argument in call.arguments]
    if call.type.kind is Kind.DECIMAL:
        return decimal_arithmetic(name, call, literals)
    if call.type.kind is Kind.DOUBLE:
        return _fmod(DOUBLE, literals) if name == "mod" else _DOUBLE[name]
    if call.type.kind is Kind.DATE:
        return _move_days(_CHECKED[name])
    if kinds == [Kind.DATE, Kind.DATE]:
        return _days_between
    if call.type.kind in (Kind.TIMESTAMP, Kind.INTERVAL):
        return _with_times(_CHECKED[name], call.type, literals)
    return _fmod(BIGINT, literals) if name == "mod" else _CHECKED[name]


# --- division ------------------------------------------------------------------------------------


def _skipping_zeros(divide: Kernel, sql_type: Type) -> Kernel:
    zero, null = zero_of(sql_type), pa.scalar(None, sql_type.arrow)

    def kernel(left: pa.Array | pa.Scalar, right: pa.Array) -> pa.Array:
        if _may_have_zeros(right, sql_type):
            right = _IF_ELSE(_EQUAL(right, zero), null, right)
        return divide(left, right)

    return kernel


def _may_have_zeros(column: pa.Array, sql_type: Type) -> bool:
    if sql_type.kind is Kind.DECIMAL:
        return True
    return int(np.count_nonzero(values_of(column, sql_type))) < len(column)


def _fmod(sql_type: Type, literals: Sequence[Literal | None]) -> Kernel:
    """Kernel for the remainder, with the sign of the dividend."""
    divisor = literals[1]
    if divisor is not None and divisor.value:
        by = scalar_of(divisor).as_py()

        def by_constant(left: pa.Array, _: pa.Scalar) -> pa.Array:
            return column_of(np.fmod(values_of(left, sql_type), by), sql_type, left)

        if sql_type.kind is not Kind.DOUBLE:  # infinities have no remainder, which NumPy tells
            return by_constant

    @np.errstate(divide="ignore", invalid="ignore")  # zeros may lie under NULLs
    def kernel(left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar) -> pa.Array:
        dividends, divisors = (
            values_of(each, sql_type) if isinstance(each, pa.Array) else each.as_py()
            for each in (left, right)
        )
        return column_of(np.fmod(dividends, divisors), sql_type, left, right)

    return kernel


# --- times ---------------------------------------------------------------------------------------


def _move_days(checked: Kernel) -> Kernel:
    def kernel(dates: pa.Array | pa.Scalar, days: pa.Array | pa.Scalar) -> pa.Array:
        before = ints_of(dates, DATE)
        wide = column_of(before, BIGINT, dates) if before.ndim else pa.scalar(int(before))
        after = checked(wide, days)
        return narrowed(values_of(after, BIGINT), DATE, after)

    return kernel


def _days_between(left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar) -> pa.Array:
    return column_of(ints_of(left, DATE) - ints_of(right, DATE), BIGINT, left, right)


def _with_times(checked: Kernel, result: Type, literals: Sequence[Literal | None]) -> Kernel:
    """Kernel on whole numbers: for times, Arrow checks the values under NULLs as well, or does not
    check.
    """
    arrow_type = result.arrow
    constants = [
        None if literal is None else pa.scalar(literal.value, BIGINT.arrow) for literal in literals
    ]

    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        numbers = [
            as_int64(each) if known is None else known
            for known, each in zip(constants, data, strict=True)
        ]
        return checked(*numbers).view(arrow_type)

    return kernel


ARITHMETIC: dict[str, Builder] = {
    name: _arithmetic(name)
    for name in ("add", "subtract", "multiply", "divide", "div", "mod", "negate", "abs")
}
