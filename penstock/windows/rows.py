"""Row windows: RANGE and SLIDE count tuples, in the order of arrival or of the attribute.

Tuples are numbered from 0, and their numbers go through a sliding (or landmark) window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from penstock.errors import PlanError
from penstock.model.arrays import Ints
from penstock.model.stable_order import stable_order, stable_order_by
from penstock.windows.category import Category
from penstock.windows.landmark import Landmark
from penstock.windows.sliding import Sliding
from penstock.windows.window import (
    IdRange,
    Stream,
    WindowId,
    WindowItem,
    ascending,
    number,
    require_positive,
    shares_partition,
)


class Order(Enum):
    ARRIVAL = "row-num"
    RANK = "rank"  # by value, ties by arrival


@dataclass(frozen=True, slots=True)
class RowWindow:
    """`range` None is RANGE ALL.  The ids of a partitioned window are (id, partition).

    Bounds are row numbers, and so is `closes_at`: it asks for a promise about the row numbers of
    later tuples.  In arrival order every tuple counted makes one.  In rank order a bound v on the
    value does: a later tuple ranks behind all tuples below v.  Which v is needed then depends on
    the tuples, so it cannot be said from w alone.

    >>> T = [WindowItem(30), WindowItem(10), WindowItem(20)]
    >>> RowWindow(2, 1).extent(1, T), RowWindow(2, 1, Order.RANK).extent(1, T)
    ([0, 1], [1, 2])
    """

    range: int | None
    slide: int
    order: Order = Order.ARRIVAL
    partitioned: bool = False

    def __post_init__(self) -> None:
        require_positive("SLIDE", self.slide)
        if self.range is not None:
            require_positive("RANGE", self.range)

    @property
    def category(self) -> Category:
        if self.order is Order.RANK:
            return Category.FORWARD_CONTEXT_AWARE
        # The stream tags its tuples with their arrival numbers, but not within partitions.
        return Category.FORWARD_CONTEXT_FREE if self.partitioned else Category.CONTEXT_FREE

    @property
    def over_rows(self) -> Sliding | Landmark:
        """The window that the row numbers go through."""
        return Landmark(self.slide) if self.range is None else Sliding(self.range, self.slide)

    def row_numbers(self, stream: Stream) -> list[int]:
        return row_numbers(stream, self.order, self.partitioned)

    def bounds(self, w: WindowId) -> tuple[int | None, int]:
        return self.over_rows.bounds(number(w))

    def closes_at(self, w: WindowId) -> int:
        return self.over_rows.closes_at(number(w))

    def windows(self, stream: Stream) -> list[WindowId]:
        return ascending(
            w
            for item, ids in zip(stream, self._id_ranges(stream), strict=True)
            for w in self._named(ids, item)
        )

    def extent(self, w: WindowId, stream: Stream) -> list[int]:
        over_rows = self.over_rows
        return [
            t
            for t, row in enumerate(self.row_numbers(stream))
            if shares_partition(w, stream[t]) and over_rows.contains(number(w), row)
        ]

    def wids(self, t: int, stream: Stream) -> list[WindowId]:
        return self._named(self._id_ranges(stream)[t], stream[t])

    def row_numbers_of(self, values: Ints, partition_codes: Ints | None = None) -> Ints:
        return row_numbers_of(values, partition_codes, self.order, self.partitioned)

    def _id_ranges(self, stream: Stream) -> list[IdRange]:
        """The ids of every tuple, still without their partition."""
        over_rows, rows = self.over_rows, self.row_numbers(stream)
        if isinstance(over_rows, Sliding):
            return [over_rows.wids_of(row) for row in rows]
        counts = Counter(_counted_in(item, self.partitioned) for item in stream)
        return [
            over_rows.wids_of(row, high=counts[_counted_in(item, self.partitioned)] - 1)
            for item, row in zip(stream, rows, strict=True)
        ]

    def _named(self, ids: IdRange, item: WindowItem) -> list[WindowId]:
        return [(w, item.partition) if self.partitioned else w for w in ids]


def row_numbers(stream: Stream, order: Order, partitioned: bool) -> list[int]:
    """The number of each tuple, from 0.

    >>> items = [WindowItem(30, "a"), WindowItem(20, "b"), WindowItem(10, "a")]
    >>> row_numbers(items, Order.RANK, partitioned=True)
    [1, 0, 0]
    """
    arrivals = list(range(len(stream)))
    if order is Order.RANK:
        arrivals.sort(key=lambda t: stream[t].value)  # stable, so ties stay in arrival order
    counts: Counter[Hashable] = Counter()
    numbers = [0] * len(stream)
    for t in arrivals:
        key = _counted_in(stream[t], partitioned)
        numbers[t] = counts[key]
        counts[key] += 1
    return numbers


def row_numbers_of(
    values: Ints, partition_codes: Ints | None, order: Order, partitioned: bool
) -> Ints:
    """`row_numbers` on columns; equal codes stand for equal partitions."""
    if not partitioned:
        codes = np.zeros(len(values), np.int64)
    elif partition_codes is None or len(partition_codes) != len(values):
        raise PlanError("a partitioned window needs the partition of every tuple")
    else:
        codes = partition_codes
    if order is Order.RANK:
        arrivals = stable_order_by(codes, values)
    else:
        arrivals = stable_order(codes)
    positions = np.arange(len(values), dtype=np.int64)
    begins = np.diff(codes[arrivals], prepend=0) != 0
    numbers = np.empty(len(values), np.int64)
    numbers[arrivals] = positions - np.maximum.accumulate(np.where(begins, positions, 0))
    return numbers


def _counted_in(item: WindowItem, partitioned: bool) -> Hashable:
    return item.partition if partitioned else ()
