"""Folding rows into an array by their group codes, fast for one row and for a million.

A batch that is small beside the array touches only its own groups; a large one is counted into a
fresh array first, which is several times faster per row.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.model.arrays import Codes
from penstock.windows.columns import extremes

Dense: TypeAlias = npt.NDArray[Any]
_EXACT_IN_FLOAT = 2**53
_FEW = 8  # rows per group below which touching single groups is cheaper than counting all


def add_ones(target: Dense, codes: Codes) -> None:
    """target[code] += 1 for every code."""
    if len(codes) == 1:
        target[codes[0]] += 1
    elif len(codes) * _FEW < len(target):
        np.add.at(target, codes, 1)
    else:
        target += np.bincount(codes, minlength=len(target))


def add_integers(
    target: Dense, codes: Codes, values: npt.NDArray[np.int64], largest: int | None = None
) -> None:
    """target[code] += value, exactly, as long as the sums fit the target; `largest` is the
    magnitude of the values, where it is known."""
    if len(codes) == 1:
        target[codes[0]] += int(values[0])
    elif len(codes) * _FEW < len(target) or target.dtype == object:
        np.add.at(target, codes, values.astype(object) if target.dtype == object else values)
    elif (magnitude(values) if largest is None else largest) * len(values) < _EXACT_IN_FLOAT:
        # bincount adds in floating point, which is exact while no sum can reach 2**53
        sums = np.bincount(codes, weights=values, minlength=len(target))
        target += sums.astype(np.int64)
    else:
        np.add.at(target, codes, values)


def magnitude(values: npt.NDArray[np.int64]) -> int:
    """The largest absolute value, as a Python integer (−2**63 has no positive counterpart)."""
    if len(values) == 0:
        return 0
    unsigned = int(values.view(np.uint64).max())
    if unsigned < 1 << 63:  # none is negative: one pass is enough
        return unsigned
    lowest, highest = extremes(values)
    return max(abs(highest), abs(lowest))


def grown(array: Dense, size: int, identity: Any) -> Dense:
    """The array with room for `size` groups, new ones at the identity; doubled to grow rarely."""
    if len(array) >= size:
        return array
    longer = np.full(max(size, 2 * len(array)), identity, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def spread(array: Dense, codes: Codes, size: int) -> Dense:
    """An array over `size` groups with the values at their codes, and zero elsewhere.

    >>> spread(np.array([7, 8]), np.array([3, 0]), 4)
    array([8, 0, 0, 7])
    """
    wide = np.zeros((*array.shape[:-1], size), array.dtype)
    wide[..., codes] = array
    return wide
