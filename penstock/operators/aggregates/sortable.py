"""Columns as arrays that sort, and tell values apart, as SQL does.

NaNs are one value, the largest number; −0.0 is 0.0.  Floats become integers in the same order, so
that both hold for every comparison; texts, bytes and decimals are Python values.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.arrays import Floats, Ints
from penstock.model.types import Kind, Type
from penstock.operators.aggregates.plain_columns import plain, unplain

Sortable: TypeAlias = npt.NDArray[Any]
_ALL_BUT_SIGN = np.int64(2**63 - 1)


def to_sortable(column: pa.Array, sql_type: Type) -> Sortable:
    """A column without NULLs."""
    values = plain(column, sql_type)
    return _in_order(values) if sql_type.kind is Kind.DOUBLE else values


def from_sortable(values: Sortable, sql_type: Type) -> pa.Array:
    if sql_type.kind is Kind.DOUBLE:
        values = to_doubles(values)
    return unplain(values, np.ones(len(values), np.bool_), sql_type)


def to_doubles(values: Sortable) -> Floats:
    return np.where(values < 0, values ^ _ALL_BUT_SIGN, values).view(np.float64)


def _in_order(doubles: Floats) -> Ints:
    """
    >>> _in_order(np.array([-1.0, 0.0, 5e-324])).argsort().tolist()
    [0, 1, 2]
    """
    bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
    return np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
