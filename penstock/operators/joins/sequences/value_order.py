"""The order of rows by the values of their columns, from left to right: what decides between tuples
of one time, so that arrival does not.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import present, values_of
from penstock.model.arrays import Ints
from penstock.model.types import DOUBLE, INT64_MAX
from penstock.operators.folding.key_order import sorted_places


def value_ranks(columns: list[pa.Array]) -> Ints:
    """Of each row; those that are the same to the last bit stay as they are.  NaN is above all
    numbers and NULL above everything; −0.0 is below 0.0, because it can be told from it.

    >>> value_ranks([pa.array([1, None, 1]), pa.array([0.0, 1.0, -0.0])])
    array([1, 2, 0])
    """
    order = sorted_places([_comparable(column) for column in columns])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _comparable(column: pa.Array) -> pa.Array:
    """Doubles as integers in the same order, which tells the zeros apart."""
    if not pa.types.is_floating(column.type):
        return column
    doubles = values_of(column, DOUBLE)
    bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ INT64_MAX, bits), mask=~present(column))
