"""Results in an order that follows the tuples that they were found by: CONSISTENCY."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch

_FEW = 16  # rows for which it is not worth to leave results as they are


def in_step(found: Sequence[tuple[Batch, Ints]], at_most: int | None) -> list[Batch]:
    """Results, with the numbers of the tuples that they were found by.  They leave in the order of
    these, but for fewer than `at_most` rows, and those of one more tuple, which may leave in any;
    None: all may."""
    batches = [batch for batch, _ in found]
    if at_most is None or not found:
        return batches
    by = np.concatenate([items for _, items in found])
    steps = by if at_most <= _FEW else _stretches(by, at_most)
    if (steps[1:] >= steps[:-1]).all():
        return batches
    return [Batch.joined(batches).take(stable_order(steps))]


def _stretches(by: Ints, at_most: int) -> Ints:
    """Each ends with the tuple that makes it `at_most` results or more.

    >>> _stretches(np.array([4, 0, 0, 2, 1, 3]), 2)
    array([2, 0, 0, 1, 1, 2])
    """
    upto = np.cumsum(np.bincount(by))
    ends, before = [], 0
    while before + at_most <= upto[-1]:
        ends.append(int(upto.searchsorted(before + at_most)))
        before = int(upto[ends[-1]])
    return np.searchsorted(np.array(ends, np.int64), by)
