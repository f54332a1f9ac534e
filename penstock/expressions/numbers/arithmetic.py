"""`+ - * / DIV %`, the sign and abs, on numbers and on times.

Whole numbers and times are checked for overflow, division by zero gives NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import as_int64, column_of, ints_of, narrowed, values_of
from penstock.expressions.node import Builder, Kernel, all_null, arrow, scalar_of, zero_of
from penstock.expressions.numbers.decimals import decimal_arithmetic
from penstock.model.types import BIGINT, DATE, DOUBLE, Kind, Type
from penstock.plan.expressions import Call, Literal

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
    """What is left, with the sign of the dividend."""
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
    """As whole numbers: of times, Arrow also checks what lies under NULLs, or nothing at all."""
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
