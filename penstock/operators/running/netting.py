"""Rows that cancel each other by their values: one that is given and one that is taken back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.model.first_rows import first_rows
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch, Signs
from penstock.operators.revising.alike import numbers_of
from penstock.operators.revising.emitted import same_rows


def left_over(columns: Sequence[pa.Array], signs: Signs) -> Ints:
    """The places of rows that are left when as many as possible have cancelled each other.

    >>> left_over([pa.array([7, 8, 7, 7])], np.array([1, 1, -1, 1], np.int8))
    array([1, 3])
    """
    rows, numbers = _may_cancel(columns, signs)
    if not len(rows):
        return np.arange(len(signs))
    own = signs[rows]
    net = np.bincount(numbers[own > 0], minlength=len(rows))
    net -= np.bincount(numbers[own < 0], minlength=len(rows))
    # of each kind the last ones stay, of the sign that is left
    candidates = np.flatnonzero(own * net[numbers] > 0)[::-1]
    order = stable_order(numbers[candidates])
    alike = numbers[candidates][order]
    begins = np.flatnonzero(np.diff(alike, prepend=-1))
    within = np.arange(len(alike)) - np.repeat(begins, np.diff([*begins, len(alike)]))
    stays = np.ones(len(signs), np.bool_)
    stays[rows] = False
    stays[rows[candidates[order[within < np.abs(net[alike])]]]] = True
    kept: Ints = np.flatnonzero(stays)
    return kept


def _may_cancel(columns: Sequence[pa.Array], signs: Signs) -> tuple[Ints, Ints]:
    """The rows that have others of the other sign that are alike, and numbers of what is alike
    among them.

    Column by column, those are left out that have none; what is long is compared last, and numbered
    only if rows that are alike in everything else are not the same.
    """
    rows = np.arange(len(signs))
    numbers: Ints = np.zeros(len(signs), np.int64)
    rows, numbers = _of_both_signs(rows, numbers, signs)
    short = [each for each in columns if _is_short(each.type)]
    long = [each for each in columns if not _is_short(each.type)]
    for column in short:
        if len(rows):
            rows, numbers = _parted(rows, numbers, column, signs)
    if not len(rows) or not long:
        return rows, numbers
    first = rows[first_rows(numbers)[0]][numbers]
    among, whole = pa.array(rows), pa.array(first)
    same = same_rows([each.take(among) for each in long], [each.take(whole) for each in long])
    if same is not None and same.all():
        return rows, numbers
    for column in long:
        if len(rows):
            rows, numbers = _parted(rows, numbers, column, signs)
    return rows, numbers


def _is_short(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_))


def _parted(rows: Ints, numbers: Ints, column: pa.Array, signs: Signs) -> tuple[Ints, Ints]:
    """By one column more."""
    own = column if len(rows) == len(column) else column.take(pa.array(rows))
    by_column = numbers_of([own], len(rows))
    numbers = first_rows(numbers * (int(by_column.max()) + 1) + by_column)[1]
    return _of_both_signs(rows, numbers, signs)


def _of_both_signs(rows: Ints, numbers: Ints, signs: Signs) -> tuple[Ints, Ints]:
    """Without what has but one sign; numbered as rows come to them."""
    if not len(rows):
        return rows, numbers
    given = np.zeros(int(numbers.max()) + 1, np.bool_)
    taken = np.zeros(len(given), np.bool_)
    positive: Mask = signs[rows] > 0
    given[numbers[positive]] = True
    taken[numbers[~positive]] = True
    both = (given & taken)[numbers]
    if both.all():
        return rows, numbers
    return rows[both], first_rows(numbers[both])[1]


def said(rows: pa.RecordBatch, signs: Signs) -> Batch | None:
    """What is left to be said of rows, those that are taken back first; None: nothing."""
    if (signs < 0).any():
        left = left_over(rows.columns, signs)
        left = left[np.argsort(signs[left], kind="stable")]
        rows, signs = rows.take(pa.array(left)), signs[left]
    return Batch(rows, signs) if rows.num_rows else None
