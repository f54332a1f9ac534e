"""Sliding windows: RANGE ticks long, one every SLIDE ticks, aligned to a fixed origin.

Window w ends before tick (w+1)·SLIDE after the origin.  RANGE need not be a multiple of SLIDE; if
it is shorter, some ticks are in no window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.model.arrays import Ints, Mask
from penstock.windows.category import Category
from penstock.windows.columns import (
    floor_div,
)
from penstock.windows.window import IdRange, Stream, require_positive


@dataclass(frozen=True, slots=True)
class Sliding:
    """
    >>> last_ten_minutes = Sliding(range=600, slide=60)
    >>> last_ten_minutes.wids_of(5)
    range(0, 10)
    >>> last_ten_minutes.bounds(9)
    (0, 600)
    """

    range: int
    slide: int
    origin: int = 0

    category: ClassVar[Category] = Category.CONTEXT_FREE

    def __post_init__(self) -> None:
        require_positive("RANGE", self.range)
        require_positive("SLIDE", self.slide)

    @property
    def is_tumbling(self) -> bool:
        return self.range == self.slide

    def bounds(self, w: int) -> tuple[int, int]:
        end = self.origin + (w + 1) * self.slide
        return end - self.range, end

    def closes_at(self, w: int) -> int:
        return self.bounds(w)[1]

    def contains(self, w: int, value: int) -> bool:
        start, end = self.bounds(w)
        return start <= value < end

    def wids_of(self, value: int) -> IdRange:
        x = value - self.origin
        return range(x // self.slide, (x + self.range) // self.slide)

    def covers(self, value: int) -> bool:
        """Whether a value is in a window."""
        return self.slide <= self.range or bool(self.wids_of(value))

    def windows(self, stream: Stream) -> list[int]:
        """Those with at least one tuple."""
        return sorted({w for item in stream for w in self.wids_of(item.value)})

    def extent(self, w: int, stream: Stream) -> list[int]:
        return [t for t, item in enumerate(stream) if self.contains(w, item.value)]

    def wids(self, t: int, stream: Stream) -> list[int]:
        return list(self.wids_of(stream[t].value))

    def wid_bounds(self, values: Ints) -> tuple[Ints, Ints]:
        """`wids_of` on a column: the first id of each value and the one after its last.

        A value that is in no window has `stop == first`.
        """
        first = floor_div(values, plus=-self.origin, by=self.slide)
        stop = floor_div(values, plus=self.range - self.origin, by=self.slide)
        return first, stop

    def covered(self, values: Ints) -> Mask | None:
        """Which values of a column are in a window; None where all are, as without gaps."""
        if self.slide <= self.range:
            return None
        first, stop = self.wid_bounds(values)
        found: Mask = first < stop
        return None if found.all() else found
