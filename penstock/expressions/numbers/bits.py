"""Bits, angles and hashes of whole columns."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.columns import column_of, holds_somewhere, ints_of, values_of
from penstock.expressions.node import Builder, Kernel, always, arrow
from penstock.model.types import BIGINT, DOUBLE


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
