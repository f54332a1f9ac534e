"""Rounding of doubles by their exact values, halves away from zero.

2.675 is a little less than that, so it becomes 2.67: the digits people see do not count.
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
_SPLITTER = 2.0**27 + 1


def round_doubles(call: Call, places: int) -> Kernel | None:
    """The kernel for so many places; None where it would take more exact numbers than doubles."""
    if places == 0:
        return _kernel(_to_whole)
    if 0 < places <= 22:  # powers of ten that doubles hold exactly
        return _kernel(lambda sizes: _to_places(sizes, 10.0**places))
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


def _to_places(sizes: Floats, power: float) -> Floats:
    """The product with the power of ten, rounded and divided again.

    Close to a half, the rounding of the product itself may hide on which side it lies.  Products
    over 2⁵³ are of numbers whose neighbours are farther away than the places ask for.
    """
    product = sizes * power
    whole = np.floor(product)
    past_half = product - whole
    past_half -= 0.5
    if (np.abs(past_half) <= product * 2.0**-52).any():
        past_half += _error(product, sizes, power)
    whole += past_half >= 0
    whole /= power
    return whole if product.max(initial=0.0) < _WHOLE else np.where(product < _WHOLE, whole, sizes)


def _error(product: Floats, sizes: Floats, power: float) -> Floats:
    """How much the true product is larger."""
    high, low = _split(sizes)
    power_high, power_low = _split(np.asarray(power))
    return ((high * power_high - product) + high * power_low + low * power_high) + low * power_low


def _split(values: Floats) -> tuple[Floats, Floats]:
    """Two halves of the digits, whose products are exact (Dekker 1971)."""
    scaled = values * _SPLITTER
    high = scaled - (scaled - values)
    return high, values - high


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
