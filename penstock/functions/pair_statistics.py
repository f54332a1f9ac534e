"""Correlation, covariance and regression, from exact sums over pairs of numbers; rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

_ROOT_BITS = 1200  # behind the point


class PairTotals(NamedTuple):
    """How many pairs there are, and what they add up to."""

    pairs: int
    y: Fraction
    x: Fraction
    yy: Fraction
    xx: Fraction
    yx: Fraction

    @property
    def spread_y(self) -> Fraction:
        return self.yy - self.y**2 / self.pairs

    @property
    def spread_x(self) -> Fraction:
        return self.xx - self.x**2 / self.pairs

    @property
    def together(self) -> Fraction:
        return self.yx - self.y * self.x / self.pairs


def _corr(of: PairTotals) -> float | None:
    if not of.spread_x or not of.spread_y:
        return None
    root = _root(of.together**2 / (of.spread_x * of.spread_y))
    return root if of.together >= 0 else -root


def _slope(of: PairTotals) -> Fraction | None:
    return of.together / of.spread_x if of.spread_x else None


def _intercept(of: PairTotals) -> Fraction | None:
    slope = _slope(of)
    return None if slope is None else (of.y - slope * of.x) / of.pairs


def _r2(of: PairTotals) -> Fraction | None:
    if not of.spread_x:
        return None
    return of.together**2 / (of.spread_x * of.spread_y) if of.spread_y else Fraction(1)


# The arguments are y and x, in this order, as in the SQL standard.
PAIR_STATISTICS: dict[str, Callable[[PairTotals], Fraction | float | None]] = {
    "corr": _corr,
    "covar_pop": lambda of: of.together / of.pairs,
    "covar_samp": lambda of: of.together / (of.pairs - 1) if of.pairs > 1 else None,
    "regr_avgx": lambda of: of.x / of.pairs,
    "regr_avgy": lambda of: of.y / of.pairs,
    "regr_sxx": lambda of: of.spread_x,
    "regr_syy": lambda of: of.spread_y,
    "regr_sxy": lambda of: of.together,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _r2,
}


def pair_statistic(name: str, totals: PairTotals) -> float | None:
    """
    >>> exact = [Fraction(each) for each in (6, 6, 14, 14, 14)]
    >>> pair_statistic("corr", PairTotals(3, *exact))
    1.0
    """
    found = PAIR_STATISTICS[name](totals)
    return _rounded(found) if isinstance(found, Fraction) else found


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _root(exact: Fraction) -> float:
    """Rounded once: of more bits than a double has, and one for those behind them."""
    scaled = exact * 4**_ROOT_BITS
    root = math.isqrt(math.floor(scaled))
    return _rounded(Fraction(2 * root + (root**2 != scaled), 2 * 2**_ROOT_BITS))
