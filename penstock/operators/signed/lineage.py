"""Where signed items come from: a negative item takes back a positive one of the same lineage.

A lineage is a number, or several for items of joined tuples: then there is a column for each.  What
has none is never taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.model.arrays import Ints, Mask
from penstock.operators.batch import Batch, Signs

NONE = -1  # of an item that is never taken back
_ABSENT = -2  # in the columns that others have


def signs_of(batch: Batch) -> Signs:
    return np.ones(batch.num_rows, np.int8) if batch.signs is None else batch.signs


def lineage_of(batch: Batch) -> Ints:
    """With a column for each part."""
    if batch.lineage is None:
        return np.full((batch.num_rows, 1), NONE)
    return batch.lineage.reshape(batch.num_rows, -1)


def stacked(several: Sequence[Ints]) -> Ints:
    """One after the other.

    >>> stacked([np.array([[3]]), np.array([[4, 5]])]).tolist()
    [[3, -2], [4, 5]]
    """
    width = max(each.shape[1] for each in several)
    wide = [np.full((len(each), width), _ABSENT) for each in several]
    for target, each in zip(wide, several, strict=True):
        target[:, : each.shape[1]] = each
    return np.concatenate(wide)


def is_joined(lineage: Ints) -> Mask:
    """Which items are of joined tuples."""
    if lineage.shape[1] == 1:
        return np.zeros(len(lineage), np.bool_)
    joined: Mask = lineage[:, 1] != _ABSENT
    return joined


def of_branch(lineage: Ints, branch: int, branches: int) -> Ints:
    """The lineage of items that come through one of several branches: two of them may have it from
    the same tuple.

    >>> of_branch(np.array([7, -1]), 1, 2)
    array([15, -1])
    """
    told = lineage.copy()
    first = told if told.ndim == 1 else told[:, 0]  # a view
    known = first != NONE
    first[known] = first[known] * branches + branch
    return told


def happening_order(ticks: Ints, signs: Signs, lineage: Ints) -> Ints:
    """How to put items in the order in which they happen: by time, those of one time as they came.
    Those of joined tuples may be brought about by one tuple, in no order: there, what is given
    comes before what is taken back."""
    if lineage.shape[1] == 1:
        return np.argsort(ticks, kind="stable")
    return np.lexsort((np.where(is_joined(lineage), -signs, 0), ticks))


def segments(columns: Sequence[Ints]) -> Ints:
    """A number for each row, the same for rows that are the same in all columns.

    >>> segments([np.array([5, 5, 5]), np.array([1, 0, 1])]).tolist()
    [1, 0, 1]
    """
    size = len(columns[0])
    order = np.lexsort(columns[::-1])
    new = np.zeros(size, np.bool_)
    for column in columns:
        in_order = column[order]
        new[1:] |= in_order[1:] != in_order[:-1]
    numbers = np.empty(size, np.int64)
    numbers[order] = np.cumsum(new)
    return numbers
