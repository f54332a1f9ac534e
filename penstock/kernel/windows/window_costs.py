"""Costs of window algorithms: the formulas of chapter 6 of the thesis.

Times are per window and in whatever unit the costs a, a', b and c are given in; sizes are in bytes;
RANGE, SLIDE, durations and offsets are in ticks; volumes are in tuples per tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd


def panes_per_slide(range_: int, slide: int) -> int:
    """
    >>> panes_per_slide(9, 6)  # panes of 3
    2
    """
    return slide // gcd(range_, slide)


def time_p_nd(tuples: float, panes: float, groups: float, a: float, b: float, c: float) -> float:
    """Eq. 6.1: panes, an aggregate that cannot be subtracted.  T `tuples` and P `panes` a window, G
    `groups` a pane; `a` to fold a tuple into a pane, `b` to put out a result of a pane, `c` to add
    one to a window.

    >>> time_p_nd(1000, 10, 5, a=1, b=1, c=1)
    155.0
    """
    return a * tuples / panes + b * groups + c * panes * groups


def time_p_blocks(
    tuples: float, panes: float, groups: float, a: float, b: float, c: float, per_slide: float
) -> float:
    """Panes that are merged in blocks (`BlockContents`), in the terms of Eq. 6.1: three merges a
    pane, and two results a window, however long it is.

    >>> time_p_blocks(1000, 10, 5, a=1, b=1, c=1, per_slide=1)
    130.0
    """
    return per_slide * (a * tuples / panes + b * groups) + (3 * per_slide + 2) * c * groups


def time_p_d(
    tuples: float, panes: float, groups: float, a: float, b: float, c: float, per_slide: float
) -> float:
    """Eq. 6.2: panes, a differential aggregate: panes that enter are added, those that leave are
    subtracted; `per_slide` is what `panes_per_slide` says.  (The equation counts the input of one
    pane per window; if a slide is several panes, all of them are counted here, or panes would look
    cheap where nearly every tuple has its own.)

    >>> time_p_d(1000, 10, 5, a=1, b=1, c=1, per_slide=1)
    115.0
    """
    return per_slide * (a * tuples / panes + b * groups) + 2 * c * groups * per_slide


def time_w_nd(tuples: float, a_prime: float) -> float:
    """Eq. 6.3: no panes; every tuple of the window is used, at a cost of a'.

    >>> time_w_nd(1000, a_prime=1)
    1000
    """
    return a_prime * tuples


def time_w_d(tuples: float, a_prime: float, range_: int, slide: int) -> float:
    """Eq. 6.4: no panes, a differential aggregate over tuples in order: those that enter are added,
    those that leave are subtracted.

    >>> time_w_d(1000, a_prime=1, range_=10, slide=1)
    200.0
    """
    return 2 * a_prime * slide * (tuples / range_)


def mc_eager(aggr: float, wed: float, slide: int) -> float:
    """Eq. 6.5: bytes that one group takes as partial results of `aggr` bytes, one for each open
    window; `wed` is how long a window is open.

    >>> mc_eager(aggr=32, wed=10, slide=1)
    320.0
    """
    return aggr * (wed / slide)


def num_tuples(
    vol: float, wed: float, volumes: Sequence[float] = (), offsets: Sequence[float] = ()
) -> float:
    """Eq. 6.7: the tuples that one group has in the buffer.  Source K adds `volumes[K]` to `vol`,
    and lags `offsets[K]` behind the earliest source.

    >>> num_tuples(vol=3, wed=10, volumes=[2, 1], offsets=[0, 4])
    26
    """
    return vol * wed - skew(volumes, offsets)


def mc_lazy(
    tup: float,
    vol: float,
    wed: float,
    volumes: Sequence[float] = (),
    offsets: Sequence[float] = (),
) -> float:
    """Eq. 6.6, with more than one source Eq. 6.8: bytes that one group takes as buffered tuples of
    `tup` bytes.

    >>> mc_lazy(tup=32, vol=0.5, wed=10)
    160.0
    >>> mc_lazy(tup=10, vol=3, wed=10, volumes=[2, 1], offsets=[0, 4])
    260
    """
    return tup * num_tuples(vol, wed, volumes, offsets)


def skew(volumes: Sequence[float], offsets: Sequence[float]) -> float:
    """Σ vol_K · offset_K: the tuples that have not come yet because their source lags."""
    return sum(vol * offset for vol, offset in zip(volumes, offsets, strict=True))


def eager_threshold(aggr: float, tup: float, wed: float, slide: int, skewed: float = 0.0) -> float:
    """Right-hand side of condition 6.9, in tuples: with a larger window volume than this, a group
    takes fewer bytes as partial results.  `skewed` is the result of `skew`.

    >>> eager_threshold(aggr=48, tup=32, wed=10, slide=1)
    15.0
    """
    return aggr * wed / (tup * slide) + skewed


def prefers_eager(
    win_vol: float, aggr: float, tup: float, wed: float, slide: int, skewed: float = 0.0
) -> bool:
    """Condition 6.9.

    >>> [prefers_eager(tuples, aggr=48, tup=32, wed=10, slide=1) for tuples in (1, 15, 300)]
    [False, False, True]
    """
    return win_vol > eager_threshold(aggr, tup, wed, slide, skewed)
