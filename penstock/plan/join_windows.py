"""Join windows: which pairs of ticks from two streams are close enough to join.

`matches` is the condition itself.  `match` says the same window by window, as section 5.2.2 does:
both streams fall into windows, and tuples join exactly if they are in related ones (`widjoin`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from penstock.errors import PlanError
from penstock.model.arrays import Ints, Mask, exceeds_by_at_most, extremes, floor_div, plus
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.plan.window_kinds import IdRange, Sliding, require_positive


class JoinWindow(Protocol):
    """Window of a join of two streams, on ticks."""

    def matches(self, left: int, right: int) -> bool: ...

    def matches_columns(self, left: Ints, right: Ints) -> Mask:
        """`matches`, elementwise."""
        ...

    def partner_bounds(self, left: int) -> tuple[int, int]:
        """Lowest and highest right value that `left` joins, both included."""
        ...

    def partner_bounds_of_right(self, right: int) -> tuple[int, int]:
        """Lowest and highest left value that `right` joins, both included."""
        ...

    def partner_columns(self, left: Ints) -> tuple[Ints, Ints]:
        """`partner_bounds`, elementwise, cut to 64 bits: where there are no partners, the highest
        is below the lowest.
        """
        ...

    def partner_columns_of_right(self, right: Ints) -> tuple[Ints, Ints]: ...


def widjoin(left_id: int, right_id: int) -> bool:
    """Whether two windows join: they do if they have the same id, because both sides share one
    origin.
    """
    return left_id == right_id


@dataclass(frozen=True, slots=True)
class TumblingJoin:
    """Tuples join within the same RANGE-long piece of time.

    >>> TumblingJoin(range=5).matches(4, 0), TumblingJoin(range=5).matches(4, 5)
    (True, False)
    """

    range: int
    origin: int = 0

    def __post_init__(self) -> None:
        require_positive("RANGE", self.range)

    def matches(self, left: int, right: int) -> bool:
        return self._wid(left) == self._wid(right)

    def matches_columns(self, left: Ints, right: Ints) -> Mask:
        same: Mask = self.keys_of(left) == self.keys_of(right)
        return same

    def keys_of(self, values: Ints) -> Ints:
        """Numbers that are equal exactly if two values are in the same window.

        They are the ids for an origin moved by whole RANGEs to next to 0, so they always fit.
        """
        return floor_div(values, plus=-(self.origin % self.range), by=self.range)

    def partner_bounds(self, left: int) -> tuple[int, int]:
        start = self.origin + self._wid(left) * self.range
        return start, start + self.range - 1

    def partner_bounds_of_right(self, right: int) -> tuple[int, int]:
        return self.partner_bounds(right)

    def partner_columns(self, left: Ints) -> tuple[Ints, Ints]:
        since = left % self.range - self.origin % self.range  # the start of the window
        since += np.where(since < 0, self.range, 0)
        left_over = self.range - 1 - since
        starts = np.maximum(left, INT64_MIN + since) - since
        return starts, np.minimum(left, INT64_MAX - left_over) + left_over

    def partner_columns_of_right(self, right: Ints) -> tuple[Ints, Ints]:
        return self.partner_columns(right)

    def match(self, left: int) -> IdRange:
        """The one window of a tuple of either side."""
        return Sliding(self.range, self.range, self.origin).wids_of(left)

    def match_of_right(self, right: int) -> IdRange:
        return self.match(right)

    def _wid(self, value: int) -> int:
        return (value - self.origin) // self.range


@dataclass(frozen=True, slots=True)
class BandJoin:
    """low <= right - left <= high.

    >>> BandJoin(low=-2, high=3).partner_bounds(10)
    (8, 13)
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise PlanError(f"the band from {self.low} to {self.high} is empty")

    def matches(self, left: int, right: int) -> bool:
        return self.low <= right - left <= self.high

    def matches_columns(self, left: Ints, right: Ints) -> Mask:
        return exceeds_by_at_most(right, left, self.high) & exceeds_by_at_most(
            left, right, -self.low
        )

    def partner_bounds(self, left: int) -> tuple[int, int]:
        return left + self.low, left + self.high

    def partner_bounds_of_right(self, right: int) -> tuple[int, int]:
        return right - self.high, right - self.low

    def partner_columns(self, left: Ints) -> tuple[Ints, Ints]:
        return _moved(left, self.low, self.high)

    def partner_columns_of_right(self, right: Ints) -> tuple[Ints, Ints]:
        return _moved(right, -self.high, -self.low)


@dataclass(frozen=True, slots=True)
class SlidingJoin:
    """The RANGE on a stream is the age up to which its tuples wait for partners.

    Q5-8: Main2 may follow Main1 within 3 minutes, Main1 may follow Main2 within 2.

    >>> within = SlidingJoin(left_range=3, right_range=2)
    >>> within.matches(0, 3), within.matches(0, 4), within.matches(2, 0), within.matches(3, 0)
    (True, False, True, False)
    """

    left_range: int
    right_range: int
    band: BandJoin = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for side, length in (("left", self.left_range), ("right", self.right_range)):
            if length < 0:
                raise PlanError(f"the RANGE of the {side} input must not be negative: {length}")
        object.__setattr__(self, "band", BandJoin(-self.right_range, self.left_range))

    def matches(self, left: int, right: int) -> bool:
        return right - left <= self.left_range and left - right <= self.right_range

    def matches_columns(self, left: Ints, right: Ints) -> Mask:
        return self.band.matches_columns(left, right)

    def partner_bounds(self, left: int) -> tuple[int, int]:
        return self.band.partner_bounds(left)

    def partner_bounds_of_right(self, right: int) -> tuple[int, int]:
        return self.band.partner_bounds_of_right(right)

    def partner_columns(self, left: Ints) -> tuple[Ints, Ints]:
        return self.band.partner_columns(left)

    def partner_columns_of_right(self, right: Ints) -> tuple[Ints, Ints]:
        return self.band.partner_columns_of_right(right)

    def match(self, left: int) -> IdRange:
        """Windows of a left tuple, one per tick of its age, 0 to RANGE inclusive."""
        return Sliding(self.left_range + 1, slide=1).wids_of(left)

    def match_of_right(self, right: int) -> IdRange:
        return Sliding(self.right_range + 1, slide=1).wids_of(right)


def _moved(values: Ints, low: int, high: int) -> tuple[Ints, Ints]:
    """Add `low` and `high` to each value, cut to 64 bits; an empty range where no value fits."""
    if not len(values):
        return values, values
    lowest, highest = extremes(values)
    if lowest + low >= INT64_MIN and highest + high <= INT64_MAX and -low <= INT64_MAX >= high:
        return values + low, values + high
    lows, highs = plus(values, low), plus(values, high)
    none = exceeds_by_at_most(np.full(len(values), INT64_MAX), values, low - 1)
    none |= exceeds_by_at_most(values, np.full(len(values), INT64_MIN), -high - 1)
    return np.where(none, INT64_MAX, lows), np.where(none, INT64_MIN, highs)
