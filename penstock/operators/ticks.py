"""Columns of progressing attributes as ticks (see `model.domain`), and back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.columns import fixed_width, of_64_bits
from penstock.model.arrays import Ints
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Kind, Type
from penstock.operators.aggregates.totals.sums import halves

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def to_ticks(column: pa.Array, sql_type: Type) -> Ints:
    """A column without NULLs as int64."""
    match sql_type.kind:
        case Kind.TIMESTAMP:
            return fixed_width(column, _INT64)
        case Kind.DATE:
            return fixed_width(column, _INT32).astype(np.int64)
        case Kind.DECIMAL:
            low, high = halves(column)
            ticks = low.astype(np.int64)
            if (high != ticks >> 63).any():
                raise too_wide()
            return ticks
        case Kind.BIGINT:
            return fixed_width(column, _INT64)
        case _:
            return np.asarray(column).astype(np.int64, copy=False)


def to_tick(value: Any, sql_type: Type) -> int:
    """The same for one plain value."""
    if sql_type.kind is not Kind.DECIMAL:
        return int(value)
    tick = int(EXACT.scaleb(value, sql_type.scale))
    if not INT64_MIN <= tick <= INT64_MAX:
        raise too_wide()
    return tick


def too_wide() -> RunError:
    return RunError("a value of the windowing attribute has more than 64 bits")


def has_ticks(column: pa.Array, sql_type: Type) -> npt.NDArray[np.bool_] | None:
    """Which values of a column without NULLs have a tick of 64 bits; None if all of the type do."""
    if sql_type.kind is not Kind.DECIMAL:
        return None
    low, high = halves(column)
    fits: npt.NDArray[np.bool_] = high == low.astype(np.int64) >> 63
    return fits


def from_ticks(ticks: Ints, sql_type: Type) -> pa.Array:
    match sql_type.kind:
        case Kind.BIGINT:
            return of_64_bits(ticks)
        case Kind.TIMESTAMP:
            return of_64_bits(ticks, sql_type.arrow)
        case Kind.DATE:
            return pa.array(ticks).cast(pa.int32()).cast(pa.date32())
        case Kind.DECIMAL:
            shifted = [EXACT.scaleb(Decimal(int(tick)), -sql_type.scale) for tick in ticks]
            return pa.array(shifted, sql_type.arrow)
        case _:
            return pa.array(ticks).cast(sql_type.arrow)
