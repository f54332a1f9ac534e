"""The order of whole numbers, in which equal ones stay as they are.

Numbers that lie close together are sorted half by half, since NumPy puts short ones into their
places without comparing them.  Others are sorted together with their places, in one word: many
times faster than sorting places by the numbers that they stand for.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Ints

_FEW = 256  # numbers that NumPy sorts sooner than they are put together
_BITS = 63
_HALF = 16  # bits of numbers that NumPy does not compare


def stable_order(values: Ints) -> Ints:
    """How to sort numbers; of equal ones the first comes first.

    >>> stable_order(np.array([7, -5, 7, 4]))
    array([1, 3, 0, 2])
    """
    if len(values) <= _FEW or values.dtype != np.int64:
        return np.argsort(values, kind="stable")
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest < 1 << 2 * _HALF:
        return _by_halves(values - lowest, highest - lowest)
    bits = (len(values) - 1).bit_length()
    if (highest - lowest).bit_length() + bits <= _BITS:
        return _sorted_places(values - lowest, np.arange(len(values)), bits)
    order = np.argsort(values)
    return _sorted_places(_ranks_of_sorted(values[order]), order, bits)


def stable_order_by(*keys: Ints) -> Ints:
    """How to sort by several numbers, the first of which counts most.

    >>> stable_order_by(np.array([2, 1, 2, 2]), np.array([5, 9, 3, 5]))
    array([1, 2, 0, 3])
    """
    first, *others = keys
    if len(first) <= _FEW or any(key.dtype != np.int64 for key in keys):
        return np.lexsort(keys[::-1])
    combined, span = _from_zero(first)
    for key in others:
        own, width = _from_zero(key)
        if span * width >= 1 << _BITS:  # as large as there are numbers, at most
            combined, span = _ranked(combined)
        if span * width >= 1 << _BITS:
            own, width = _ranked(own)
        combined, span = combined * width + own, span * width
    return stable_order(combined)


def sorted_runs_order(values: Ints) -> Ints:
    """The same for a few sorted runs, one behind the other, which are merged.

    >>> sorted_runs_order(np.array([2, 7, 9, 1, 7]))
    array([3, 0, 1, 4, 2])
    """
    return np.argsort(values, kind="stable")


def _by_halves(values: Ints, highest: int) -> Ints:
    order = np.argsort(values.astype(np.uint16), kind="stable")
    if highest >> _HALF:
        upper = (values >> _HALF).astype(np.uint16)
        order = order[np.argsort(upper[order], kind="stable")]
    return order


def _from_zero(values: Ints) -> tuple[Ints, int]:
    """Numbers in the same order from 0 on, and one that is above all of them."""
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest >= 1 << _BITS:
        return _ranked(values)
    return values - lowest, highest - lowest + 1


def _ranked(values: Ints) -> tuple[Ints, int]:
    """The same, as low as can be."""
    order = np.argsort(values)
    ranks = np.empty(len(values), np.int64)
    ranks[order] = in_order = _ranks_of_sorted(values[order])
    return ranks, int(in_order[-1]) + 1


def _ranks_of_sorted(values: Ints) -> Ints:
    ranks = np.zeros(len(values), np.int64)
    np.cumsum(values[1:] != values[:-1], out=ranks[1:])
    return ranks


def _sorted_places(values: Ints, places: Ints, bits: int) -> Ints:
    """Places that take so many bits, by numbers that leave room for them."""
    words = values << bits
    words |= places
    words.sort()
    words &= (1 << bits) - 1
    return words
