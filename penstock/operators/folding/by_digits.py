"""Sorting whole numbers digit by digit, each by counting: many are sorted much faster so."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Ints

_DIGIT = 16  # bits; NumPy counts numbers of this size
_PASSES = 3  # that are faster than comparing
_MANY = 1 << 12  # numbers for which they are


def pays(count: int, bits: int) -> bool:
    """Whether so many numbers of so many bits are sorted faster so."""
    return count >= _MANY and bits <= _DIGIT * _PASSES


def stable_order(values: Ints) -> Ints:
    """How to sort numbers that are not negative; of equal ones the first comes first.

    >>> stable_order(np.array([70_000, 5, 70_000, 4]))
    array([3, 1, 0, 2])
    """
    highest = int(values.max(initial=0))
    order = np.argsort(values.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT, highest.bit_length(), _DIGIT):
        digits = (values >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order
