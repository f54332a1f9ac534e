"""Slide-by-tuple windows: every n-th tuple opens a window that reaches RANGE ticks back from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.model.arrays import Ints, Mask
from penstock.windows.category import Category
from penstock.windows.columns import (
    floor_div,
)
from penstock.windows.rows import Order, row_numbers, row_numbers_of
from penstock.windows.window import (
    Stream,
    WindowId,
    WindowItem,
    ascending,
    number,
    require_positive,
    shares_partition,
)


@dataclass(frozen=True, slots=True)
class SlideByTuple:
    """A window's id is the value of the tuple that opens it, with the partition if there is one.

    Tuples of the same value open the same window but each has a result: see `openers`.

    >>> T = [WindowItem(10), WindowItem(14), WindowItem(12)]
    >>> window = SlideByTuple(range=3, every=2)
    >>> window.openers(T), window.windows(T), window.extent(12, T)
    ([0, 2], [10, 12], [0, 2])
    """

    range: int
    every: int = 1
    order: Order = Order.ARRIVAL
    partitioned: bool = False

    category: ClassVar[Category] = Category.FORWARD_CONTEXT_AWARE

    def __post_init__(self) -> None:
        require_positive("RANGE", self.range)
        require_positive("SLIDE", self.every)

    def bounds(self, w: WindowId) -> tuple[int, int]:
        """The start is outside of the window, the end inside."""
        return number(w) - self.range, number(w)

    def closes_at(self, w: WindowId) -> int:
        return number(w) + 1

    def openers(self, stream: Stream) -> list[int]:
        """The arrival numbers of the tuples that open a window."""
        rows = row_numbers(stream, self.order, self.partitioned)
        return [t for t, row in enumerate(rows) if row % self.every == 0]

    def windows(self, stream: Stream) -> list[WindowId]:
        return ascending(self._opened_by(stream[t]) for t in self.openers(stream))

    def extent(self, w: WindowId, stream: Stream) -> list[int]:
        start, end = self.bounds(w)
        return [
            t
            for t, item in enumerate(stream)
            if shares_partition(w, item) and start < item.value <= end
        ]

    def wids(self, t: int, stream: Stream) -> list[WindowId]:
        item = stream[t]
        return [
            w
            for w in self.windows(stream)
            if shares_partition(w, item) and item.value <= number(w) < item.value + self.range
        ]

    def openers_of(self, values: Ints, partition_codes: Ints | None = None) -> Mask:
        """`openers` on columns, as a mask."""
        rows = row_numbers_of(values, partition_codes, self.order, self.partitioned)
        opens: Mask = rows % self.every == 0
        return opens

    def wid_bounds(self, values: Ints) -> tuple[Ints, Ints]:
        """The interval [first, stop) that the ids of each value's windows lie in."""
        return values, floor_div(values, plus=self.range, by=1)

    def _opened_by(self, item: WindowItem) -> WindowId:
        return (item.value, item.partition) if self.partitioned else item.value
