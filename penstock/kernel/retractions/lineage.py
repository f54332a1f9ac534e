"""Lineage of signed items: a negative item retracts a positive one of the same lineage.

A lineage has two columns for every tuple that an item is made of: its number, and when the item
came or went there (its turn), which no other of the lineage has.  Items of joined tuples are made
of several.  Items without lineage are never retracted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernel.batch import Batch, Signs
from penstock.model.arrays import Ints, Mask, stable_order

NONE = -1  # of an item that is never retracted
_ABSENT = -2  # in the columns that others have


def signs_of(batch: Batch) -> Signs:
    return np.ones(batch.num_rows, np.int8) if batch.signs is None else batch.signs


def lineage_of(batch: Batch) -> Ints:
    if batch.lineage is None:
        return np.full((batch.num_rows, 1), NONE)
    return batch.lineage.reshape(batch.num_rows, -1)


def made_of(numbers: Ints, turns: Ints | None = None) -> Ints:
    """The lineage of items of one tuple each; those of tuples that stay have no turns.

    >>> made_of(np.array([7, 8]), np.array([3, 5])).tolist()
    [[7, 3], [8, 5]]
    """
    return np.column_stack([numbers, np.zeros_like(numbers) if turns is None else turns])


def numbers_of(lineage: Ints) -> Ints:
    """A column for each tuple: what items of one lineage have in common."""
    return lineage[:, 0::2]


def stacked(several: Sequence[Ints]) -> Ints:
    """Concatenate lineages.

    >>> stacked([made_of(np.array([3])), np.array([[4, 9, 5, 0]])]).tolist()
    [[3, 0, -2, -2], [4, 9, 5, 0]]
    """
    width = max(each.shape[1] for each in several)
    return np.concatenate([widened(each, width) for each in several])


def widened(lineage: Ints, width: int) -> Ints:
    """Widen a lineage to so many columns."""
    if lineage.shape[1] == width:
        return lineage
    wide = np.full((len(lineage), width), _ABSENT)
    wide[:, : lineage.shape[1]] = lineage
    return wide


def beside_rows(lineage: Ints, rows: Ints) -> Ints:
    """Lineage of items joined with rows of a table, which go by their numbers; -1 stands for no
    row."""
    made = made_of(rows)
    made[rows < 0] = _ABSENT
    return np.hstack([lineage, made])


def is_joined(lineage: Ints) -> Mask:
    """Mask of the items of joined tuples."""
    joined: Mask = (lineage[:, 2::2] != _ABSENT).any(axis=1)
    return joined


def of_branch(lineage: Ints, branch: int, branches: int) -> Ints:
    """The lineage of items that come through one of several branches: two of them may have it from
    the same tuple.

    >>> of_branch(np.array([[7, 2], [-1, 0]]), 1, 2).tolist()
    [[15, 2], [-1, 0]]
    """
    told = lineage.copy()
    known = told[:, 0] != NONE
    told[known, 0] = told[known, 0] * branches + branch
    return told


def happening_order(ticks: Ints, signs: Signs, lineage: Ints) -> Ints:
    """Order of items by the time at which they happen, those of one time in order of arrival.
    Items of joined tuples may be caused by one tuple, in no order: there, insertions come before
    retractions, the latest first, because the last one is retracted first."""
    joined = is_joined(lineage)
    if not joined.any():
        return stable_order(ticks)
    turns = [np.where(joined, ~turn, 0) for turn in lineage[:, 1::2].T]
    return np.lexsort((*turns[::-1], np.where(joined, -signs, 0), ticks))


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


# Matching: the positive item that each negative one retracts, for many at once.

NOTHING = -1


def taken_back(numbers: Ints, signs: Signs) -> Ints:
    """For every item the place of the positive one that it retracts, -1 for none.  Items are in the
    order in which they happen; `numbers` tell which of them are of one kind.

    A negative item retracts the latest open one of its kind, like a bracket that closes; if none is
    open, it is without effect.  So let the depth be the number of open items: it goes up and down
    with the items, but never below 0.  Of the items that lead up to some depth, or down from it,
    every second one is negative, and retracts the one before it.

    >>> taken_back(np.zeros(6, np.int64), np.array([-1, 1, 1, -1, -1, 1], np.int8)).tolist()
    [-1, -1, -1, 2, 1, -1]
    """
    size = len(numbers)
    found = np.full(size, NOTHING)
    if size == 0:
        return found
    order = stable_order(numbers)
    kinds, steps = numbers[order], signs[order].astype(np.int64)
    new = np.append(True, kinds[1:] != kinds[:-1])
    starts = np.flatnonzero(new)
    of = np.cumsum(new) - 1  # which kind each is of, from 0
    walked = np.cumsum(steps)
    before = walked - steps
    walked -= before[starts][of]  # how far the items of a kind have gone up or down
    # each kind lies below all before it, so that one running minimum serves all of them
    lower = of * (2 * size + 1)
    lowest = np.minimum.accumulate(walked - lower) + lower
    lowest = np.minimum(lowest, 0)
    depth = walked - lowest
    previous = np.where(new, 0, np.append(0, lowest[:-1]))
    in_vain = (steps < 0) & (lowest < previous)
    level = np.where(steps > 0, depth, depth + 1)
    real = np.flatnonzero(~in_vain)
    by_level = real[np.lexsort((level[real], of[real]))]  # otherwise they stay in order
    closes = np.flatnonzero(steps[by_level] < 0)
    found[order[by_level[closes]]] = order[by_level[closes - 1]]
    return found
