"""Which positive item a negative one takes back, for many at once."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Signs

NOTHING = -1


def taken_back(numbers: Ints, signs: Signs) -> Ints:
    """For every item the place of the positive one that it takes back, -1 for none.  Items are in
    the order in which they happen; `numbers` say which of them are of one kind.

    A negative item takes back the latest of its kind that is there, like a bracket that closes; if
    none is, it is without effect.  So let the depth be how many are there: it goes up and down with
    the items, but never below 0.  Of the items that lead up to some depth, or down from it, every
    second one is negative, and takes back the one before it.

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
