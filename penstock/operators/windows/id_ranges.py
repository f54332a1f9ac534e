"""Which sliding windows tuples are in, late ones from the first that their bound has not closed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.model.arrays import Ints
from penstock.operators.windows.results import Missed
from penstock.windows.columns import floor_div
from penstock.windows.sliding import Sliding


class IdRanges(NamedTuple):
    """The first window of each tuple, and the one after the last; whether some begin further on
    than their value says, and the tuples that missed windows."""

    first: Ints
    stop: Ints
    raised: bool = False
    missed: Missed | None = None


def id_ranges(
    window: Sliding, ticks: Ints, broke: Ints | None, bounds: Ints | None, whole: bool = False
) -> IdRanges:
    """`broke` are the rows that broke a bound, with these `bounds`.  A late tuple begins with the
    first window that its bound has not closed; if late as a `whole`, it is in no window at all."""
    first, stop = window.wid_bounds(ticks)
    if broke is None or bounds is None or not len(broke):
        return IdRanges(first, stop)
    open_ = floor_div(bounds, plus=-window.origin, by=window.slide)
    missing = (open_ > first[broke]) & (first[broke] < stop[broke])
    if not missing.any():
        return IdRanges(first, stop)
    rows, bounds = broke[missing], bounds[missing]
    from_ = stop[rows] if whole else np.minimum(open_[missing], stop[rows])
    missed = Missed(rows, bounds, first[rows], from_ - 1)
    first = first.copy()
    first[rows] = from_
    return IdRanges(first, stop, not whole, missed)


def last_closed(window: Sliding, bound: int) -> int:
    """The last window that ends at or below a bound."""
    return (bound - window.origin) // window.slide - 1
