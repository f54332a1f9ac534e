"""The kinds of windows and their definitions: `windows`, `extent` and `wids`, with the category of
each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

import numpy as np

from penstock.errors import PlanError, RunError
from penstock.model.arrays import Ints, Mask, floor_div, stable_order, stable_order_by


class Category(Enum):
    """Category of a window: CF, FCF or FCA of the thesis; the first one that fits. It says which
    other tuples determine the windows of a tuple.
    """

    CONTEXT_FREE = "context-free"  # the tuple alone
    FORWARD_CONTEXT_FREE = "forward-context-free"  # earlier tuples, too
    FORWARD_CONTEXT_AWARE = "forward-context-aware"  # later tuples, too: tuples may have to wait

    def __str__(self) -> str:
        return self.value


# The three functions that define a window: `windows`, `extent` and `wids`.
#
# They are definitions over a whole finite stream, the oracle of every algorithm.  `extent` and
# `wids` are inverses: tuple t is in `extent(w)` exactly if w is in `wids(t)`.


@dataclass(frozen=True, slots=True)
class WindowItem:
    """A tuple as windows see it: the tick of the windowing attribute, and the partition."""

    value: int
    partition: Hashable = ()


Stream: TypeAlias = Sequence[WindowItem]
"""In arrival order: the arrival number of an item is its index."""

WindowId: TypeAlias = int | tuple[int, Hashable]
"""A number, or a number and the partition that it counts in."""

IdRange: TypeAlias = range
"""Consecutive ids.  (The builtin by another name: windows have a field called `range`.)"""

Id = TypeVar("Id", bound=WindowId)


class AggregateWindow(Protocol[Id]):
    """Definition of a window of an aggregation, over a whole finite stream."""

    @property
    def category(self) -> Category: ...

    def windows(self, stream: Stream) -> list[Id]:
        """Ids of the windows that the stream gives rise to, ascending."""
        ...

    def extent(self, w: Id, stream: Stream) -> list[int]:
        """Arrival numbers of the tuples in window w, ascending."""
        ...

    def wids(self, t: int, stream: Stream) -> list[Id]:
        """Ids of the windows that tuple number t belongs to, ascending."""
        ...

    def bounds(self, w: Id) -> tuple[int | None, int]:
        """Values of window_start and window_end."""
        ...

    def closes_at(self, w: Id) -> int:
        """Smallest bound v on all later tuples that completes window w."""
        ...


AnyWindow: TypeAlias = AggregateWindow[Any]


def number(w: WindowId) -> int:
    """Id without its partition."""
    return w[0] if isinstance(w, tuple) else w


def shares_partition(w: WindowId, item: WindowItem) -> bool:
    """Whether `item` is in the partition that w counts in; a plain id counts in all of them."""
    return not isinstance(w, tuple) or w[1] == item.partition


def ascending(ids: Iterable[WindowId]) -> list[WindowId]:
    """Distinct ids in the order of their numbers.

    Partitions need not compare with each other, so equal numbers stay in the order they come in.

    >>> ascending([(1, "b"), (1, None), (0, "b"), (1, "b")])
    [(0, 'b'), (1, 'b'), (1, None)]
    """
    return sorted(dict.fromkeys(ids), key=number)


def require_positive(clause: str, length: int) -> None:
    if length <= 0:
        raise PlanError(f"{clause} must be greater than zero, not {length}")


# Sliding windows: RANGE ticks long, one every SLIDE ticks, aligned to a fixed origin.
#
# Window w ends before tick (w+1)·SLIDE after the origin.  RANGE need not be a multiple of SLIDE; if
# it is shorter, some ticks are in no window.


@dataclass(frozen=True, slots=True)
class Sliding:
    """Sliding window: RANGE ticks long, one every SLIDE ticks from an origin.

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
        """Ids of the windows with at least one tuple."""
        return sorted({w for item in stream for w in self.wids_of(item.value)})

    def extent(self, w: int, stream: Stream) -> list[int]:
        return [t for t, item in enumerate(stream) if self.contains(w, item.value)]

    def wids(self, t: int, stream: Stream) -> list[int]:
        return list(self.wids_of(stream[t].value))

    def wid_bounds(self, values: Ints) -> tuple[Ints, Ints]:
        """`wids_of` on a column: the first id of each value, and the one after its last.

        A value that is in no window has `stop == first`.
        """
        first = floor_div(values, plus=-self.origin, by=self.slide)
        stop = floor_div(values, plus=self.range - self.origin, by=self.slide)
        return first, stop

    def covered(self, values: Ints) -> Mask | None:
        """Mask of the values that are in a window; None if all are, as always without gaps."""
        if self.slide <= self.range:
            return None
        first, stop = self.wid_bounds(values)
        found: Mask = first < stop
        return None if found.all() else found


# Landmark windows (RANGE ALL): everything so far, once per SLIDE from the first tuple on.


@dataclass(frozen=True, slots=True)
class Landmark:
    """Landmark window: each one contains the one before it; the highest value of the stream
    determines the last.

    `high` is that value where the bound is beyond all tuples.

    >>> Landmark(slide=60).wids_of(65, high=200)
    range(1, 4)
    """

    slide: int
    origin: int = 0

    category: ClassVar[Category] = Category.CONTEXT_FREE

    def __post_init__(self) -> None:
        require_positive("SLIDE", self.slide)

    def bounds(self, w: int) -> tuple[None, int]:
        return None, self.origin + (w + 1) * self.slide

    def closes_at(self, w: int) -> int:
        return self.bounds(w)[1]

    def contains(self, w: int, value: int) -> bool:
        return value < self.bounds(w)[1]

    def wids_of(self, value: int, high: int) -> IdRange:
        """Ids from the first window that contains `value` to the first that contains `high`."""
        first, last = ((tick - self.origin) // self.slide for tick in (value, high))
        return range(first, last + 1)

    def windows(self, stream: Stream, *, high: int | None = None) -> list[int]:
        if not stream:
            return []
        lowest = min(item.value for item in stream)
        return list(self.wids_of(lowest, _highest(stream, high)))

    def extent(self, w: int, stream: Stream) -> list[int]:
        return [t for t, item in enumerate(stream) if self.contains(w, item.value)]

    def wids(self, t: int, stream: Stream, *, high: int | None = None) -> list[int]:
        return list(self.wids_of(stream[t].value, _highest(stream, high)))

    def first_wid(self, values: Ints) -> Ints:
        """First window of each value of a column; the value is in all later ones, too."""
        return floor_div(values, plus=-self.origin, by=self.slide)


def _highest(stream: Stream, high: int | None) -> int:
    reached = max(item.value for item in stream)
    return reached if high is None else max(reached, high)


# Session windows: tuples of a group that follow each other within a gap.
#
# A session ends GAP after its last tuple, and at most MAX after its first.  A tuple belongs to the
# session before it if it comes before that one's end; otherwise it begins a session of its own.


@dataclass(frozen=True, slots=True)
class Session:
    """Session window. Every partition has its own sessions, so an id is the start of a session and
    its partition. The end of a session depends on the tuples, so it does not follow from an id
    alone.

    >>> from penstock.plan.window_kinds import WindowItem
    >>> T = [WindowItem(10), WindowItem(31), WindowItem(14), WindowItem(19)]
    >>> session = Session(gap=6)
    >>> session.windows(T), session.extent((10, ()), T), session.bounds((10, ()), T)
    ([(10, ()), (31, ())], [0, 2, 3], (10, 25))
    >>> Session(gap=6, longest=8).windows(T)
    [(10, ()), (19, ()), (31, ())]
    """

    gap: int
    longest: int | None = None  # MAX

    category: ClassVar[Category] = Category.FORWARD_CONTEXT_AWARE

    def __post_init__(self) -> None:
        require_positive("GAP", self.gap)
        if self.longest is not None:
            require_positive("MAX", self.longest)

    @property
    def shortest(self) -> int:
        """Length of a session of one tuple."""
        return self.end(0, 0)

    def end(self, first: int, last: int) -> int:
        """End of a session from its first and its last tuple so far."""
        end = last + self.gap
        return end if self.longest is None else min(end, first + self.longest)

    def sessions(self, stream: Stream) -> dict[WindowId, list[int]]:
        """Arrival numbers of the tuples of every session, by id."""
        found: dict[WindowId, list[int]] = {}
        latest: dict[object, tuple[WindowId, int]] = {}  # by partition: id and end
        for t in sorted(range(len(stream)), key=lambda t: stream[t].value):
            value, partition = stream[t].value, stream[t].partition
            w, end = latest.get(partition, ((value, partition), value))
            if value >= end:
                w = (value, partition)
            assert isinstance(w, tuple)
            latest[partition] = (w, self.end(w[0], value))
            found.setdefault(w, []).append(t)
        return {w: sorted(members) for w, members in found.items()}

    def windows(self, stream: Stream) -> list[WindowId]:
        return ascending(self.sessions(stream))

    def extent(self, w: WindowId, stream: Stream) -> list[int]:
        return self.sessions(stream).get(w, [])

    def wids(self, t: int, stream: Stream) -> list[WindowId]:
        return [w for w, members in self.sessions(stream).items() if t in members]

    def bounds(self, w: WindowId, stream: Stream) -> tuple[int, int]:
        values = [stream[t].value for t in self.extent(w, stream)]
        return min(values), self.end(min(values), max(values))

    def closes_at(self, w: WindowId, stream: Stream) -> int:
        """End of the session: a later tuple at or above it is in none of these."""
        return self.bounds(w, stream)[1]


# Row windows: RANGE and SLIDE count tuples, in the order of arrival or of the attribute.
#
# Tuples are numbered from 0, and their numbers go through a sliding (or landmark) window.


class Order(Enum):
    """Order in which a row window counts tuples."""

    ARRIVAL = "row-num"
    RANK = "rank"  # by value, ties by arrival


@dataclass(frozen=True, slots=True)
class RowWindow:
    """Row window: RANGE and SLIDE count tuples. `range` None is RANGE ALL. The ids of a
    partitioned window are (id, partition).

    Bounds are row numbers, and so is `closes_at`: it asks for a bound on the row numbers of later
    tuples.  In arrival order, every tuple that is counted raises it.  In rank order, a bound v on
    the value does: a later tuple ranks behind all tuples below v.  The v that is needed then
    depends on the tuples, so it does not follow from w alone.

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
        """Window over the row numbers."""
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
        """Ids of every tuple, without their partition."""
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
    """Number of each tuple, from 0.

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


# Slide-by-tuple windows: every n-th tuple opens a window that reaches RANGE ticks back from it.


@dataclass(frozen=True, slots=True)
class SlideByTuple:
    """Slide-by-tuple window: its id is the value of the tuple that opens it, with the partition if
    there is one.

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
        """Start, which is excluded, and end, which is included."""
        return number(w) - self.range, number(w)

    def closes_at(self, w: WindowId) -> int:
        return number(w) + 1

    def openers(self, stream: Stream) -> list[int]:
        """Arrival numbers of the tuples that open a window."""
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
        """Interval [first, stop) that contains the ids of the windows of each value."""
        return values, floor_div(values, plus=self.range, by=1)

    def _opened_by(self, item: WindowItem) -> WindowId:
        return (item.value, item.partition) if self.partitioned else item.value


# Limits on the number of windows that one tuple or one bound may open or close.
#
# A window is emitted even if it holds the same tuples as the one before it.  So a mistake in one
# row (a time in the year 9999) or in a query (RANGE 1 WEEK, SLIDE 1 MICROSECOND) can mean more
# windows than could ever be emitted.  That is an error, which tells their number.

MOST_WINDOWS: Final = 10_000_000
"""Windows in a row that hold the same tuples, where they are emitted one after the other."""

MOST_KEPT: Final = 100_000
"""The same limit where something is computed and kept for each of them."""

MOST_REMEMBERED: Final = 1_000_000
"""The same limit where they are emitted one after the other, but have to be remembered."""


def per_tuple(window: Sliding | RowWindow) -> int:
    """Maximum number of windows of a tuple.

    >>> per_tuple(Sliding(range=10, slide=3))
    4
    """
    return 1 if window.range is None else -(-window.range // window.slide)


def too_many(windows: int, upto: str, most: int) -> RunError:
    """Error about too many windows; `upto` is the value that brings them about."""
    return RunError(
        f"up to {upto} there are {windows:,} windows in a row that hold the same tuples",
        expected=f"at most {most:,}",
        hint="FUTURE LIMIT in the PROGRESS clause keeps such tuples away; or a longer SLIDE",
    )
