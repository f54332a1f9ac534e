"""Rounding of doubles as the numbers that they are written as, halves away from zero.

2.675 becomes 2.68, as in Spark, Flink and DuckDB, though the double is a little less than that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import (
    column_of,
    values_of,
)
from penstock.expressions.node import Kernel
from penstock.expressions.rows import by_rows
from penstock.model.arrays import Floats
from penstock.model.types import DOUBLE
from penstock.plan.expressions import Call

_WHOLE = 2.0**53  # from here on, doubles have no places
_TOLD_APART = 2.0**50  # halves below have so few digits that no two are the same double


def round_doubles(call: Call, places: int) -> Kernel | None:
    """The kernel for so many places; None where it would take more exact numbers than doubles."""
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
    """The product with the power of ten, rounded and divided again.

    Close to a half, the rounding of the product itself may hide on which side it lies; the double
    that is nearest to the half does not, as long as that has no more digits than tell doubles
    apart.  Products over 2⁵³ are of numbers whose neighbours are farther away than the places ask
    for.
    """
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
    """To a multiple of a power of ten, if all numbers are small enough to do it exactly."""
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
