"""In which order the row windows of several partitions leave where their rows are counted together:
as the tuples come that fill them, whatever the batches are.  Those that are not full when the
stream ends follow by id, then by partition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.stable_order import stable_order

# of the rows of windows, by their partitions and ids: how to put them in order
PlacesOfWindows = Callable[[Codes, Ints], Ints]


def as_filled(parts: Codes, numbers: Ints, slide: int) -> PlacesOfWindows:
    """Windows that tuples fill, which have such numbers in their partitions.

    >>> places = as_filled(np.array([7, 4, 7, 4, 4]), np.array([0, 3, 1, 4, 5]), 2)
    >>> places(np.array([4, 4, 7]), np.array([1, 2, 0])).tolist()
    [0, 2, 1]
    """
    filling = np.flatnonzero((numbers + 1) % slide == 0)
    filling = filling[stable_order(parts[filling])]
    filled = (numbers[filling] + 1) // slide - 1

    def places(of: Codes, ids: Ints) -> Ints:
        first = np.searchsorted(parts[filling], of)  # the windows of a partition follow each other
        return stable_order(filling[first + ids - filled[first]])

    return places


def as_left(ranks: Callable[[Codes], Ints]) -> PlacesOfWindows:
    """Windows that nothing fills any more, by partitions that have such ranks."""

    def places(of: Codes, ids: Ints) -> Ints:
        return np.lexsort((ranks(of), ids))

    return places
