"""Rows that cancel each other by their values: one that is given and one that is taken back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch, Signs
from penstock.operators.revising.alike import numbers_of


def left_over(columns: Sequence[pa.Array], signs: Signs) -> Ints:
    """The places of rows that are left when as many as possible have cancelled each other.

    >>> left_over([pa.array([7, 8, 7, 7])], np.array([1, 1, -1, 1], np.int8))
    array([1, 3])
    """
    if (signs > 0).all() or (signs < 0).all():
        return np.arange(len(signs))
    numbers = numbers_of(columns, len(signs))
    net = np.zeros(int(numbers.max()) + 1, np.int64)
    np.add.at(net, numbers, signs)
    # of each kind the last ones stay, of the sign that is left
    candidates = np.flatnonzero(signs * net[numbers] > 0)[::-1]
    order = stable_order(numbers[candidates])
    alike = numbers[candidates][order]
    begins = np.flatnonzero(np.diff(alike, prepend=-1))
    within = np.arange(len(alike)) - np.repeat(begins, np.diff([*begins, len(alike)]))
    kept: Ints = np.sort(candidates[order[within < np.abs(net[alike])]])
    return kept


def said(rows: pa.RecordBatch, signs: Signs) -> Batch | None:
    """What is left to be said of rows, those that are taken back first; None: nothing."""
    if (signs < 0).any():
        left = left_over(rows.columns, signs)
        left = left[np.argsort(signs[left], kind="stable")]
        rows, signs = rows.take(pa.array(left)), signs[left]
    return Batch(rows, signs) if rows.num_rows else None
