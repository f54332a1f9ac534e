"""Windows over signed items, by kind: sliding, landmark, slide-by-tuple and row windows.  Items
wait for the bound, which settles the retractions, and leave with the windows that it closes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.grouping.folding import DeadKeys, Folder
from penstock.kernel.operator import (
    NOTHING_OPEN,
    Base,
    Item,
    LateRows,
    OpenResults,
    Progress,
    at_once,
    open_spans,
)
from penstock.kernel.retractions.net_items import (
    KeptItems,
    NetExtents,
    NetPartitions,
    by_part,
    taken,
)
from penstock.kernel.revisions.amendment import behind, in_time_of, with_amended
from penstock.kernel.revisions.revised_windows import LateForWindows
from penstock.kernel.state import ChunkStore, Within
from penstock.kernel.windows.landmark import refuse_gaps
from penstock.kernel.windows.results import Missed, last_closed, promised
from penstock.kernel.windows.row_windows import windows_batch
from penstock.model.arrays import Codes, Ints, Mask, exceeds_by_at_most, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.physical import Asked
from penstock.plan.window_kinds import (
    MOST_WINDOWS,
    Landmark,
    Order,
    RowWindow,
    SlideByTuple,
    Sliding,
)

NO_FLOOR = INT64_MIN  # of an item that counts in all of its windows


class SignedWindows(Base):
    """Base of windows over the values of signed items.  Items wait for the bound, which settles the
    retractions, and leave with the windows that it closes.

    Only plain tuples, which a union may bring along, can be late: they count from a `floor` on,
    the first window that the bound before them had not closed.  Where late tuples are amended,
    windows wait until no late tuple counts in them any more.
    """

    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        assert isinstance(node.window, Sliding | Landmark)
        assert node.attribute is not None
        self.node = node
        self._type = node.attribute.type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self.bound = BoundOf(node.attribute)
        self._grace = 0 if asked is None else asked.grace(self._type)
        types = self._type, node.schema.fields[0].type
        self._late = LateForWindows(node.window, self.bound, self._grace, types)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        schema = node.input.schema.arrow
        self.waiting = KeptItems(schema, tags=1)
        self.extents = NetExtents(self.folder, schema)
        self.next: Bound = BEGINNING  # the first window that has not been emitted
        self.highest: Bound = BEGINNING  # of the windows that had results
        self._dead = DeadKeys(self.folder)

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        ticks = to_ticks(self._attribute(batch.rows), self._type)
        self._reach(int(ticks.max()))
        first, stop = self._windows_of(ticks)
        begin, late = self._late.split(batch, first, stop)
        if late is not None:
            yield late
        floors = np.where(begin > first, begin, NO_FLOOR)
        self.waiting.add(batch.without_broken(), ticks, (floors,))

    def _final(self, progress: Progress) -> Bound:
        """The bound below which no tuple counts any more."""
        return behind(self.bound.promised(progress), self._grace)

    def _reach(self, tick: Bound) -> None:
        """Note that the stream has come to a tick."""

    @abstractmethod
    def _windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        """The first window of each item, and the one after its last."""

    def _settle(self, bound: Bound) -> Ints:
        """Let all items below a bound count; return the first window of each."""
        settled = self.waiting.below(bound)
        if settled is None:
            return np.zeros(0, np.int64)
        batch, ticks, (floors,) = settled
        first, stop = self._windows_of(ticks)
        begins: Ints = np.maximum(first, floors)
        self.extents.settle(batch, ticks, begins, stop)
        return begins

    def _released(self, last: Bound) -> Iterator[Item]:
        """Emit the windows up to the last one that have not been emitted."""
        if last < self.next or last == BEGINNING:
            return
        begin = INT64_MIN if self.next == BEGINNING else int(self.next)
        end = INT64_MAX if last == END else int(last) + 1
        for ids, columns in self.extents.windows(begin, end):
            self.highest = max(self.highest, int(ids[-1]))
            yield Batch(windows_batch(self.node, [(ids, columns)]))
        self.next = END if last == END else int(last) + 1
        self.extents.pass_(end)
        self._dead.forget(self.extents.mark, self._renumber)

    def _renumber(self, codes: Codes, place: Codes) -> None:  # noqa: ARG002
        self.extents.renumber(place)

    @property
    def reached(self) -> int | None:
        """The window after the highest that had results."""
        return None if self.highest == BEGINNING else int(self.highest) + 1

    def rows_held(self) -> int:
        return len(self.waiting) + len(self.extents)

    def open_results(self) -> OpenResults:
        """Items that wait for the bound, or for the end of their windows."""
        return OpenResults(others=self.rows_held())

    def save(self, store: ChunkStore) -> None:
        self.waiting.save(Within(store, "waiting/"))
        self.extents.save(Within(store, "extents/"))
        store.put("run", {"next": self.next, "highest": self.highest})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self.waiting.load(Within(store, "waiting/"))
            self.extents.load(Within(store, "extents/"))
            self.next, self.highest = saved["next"], saved["highest"]


# Sliding windows over signed items.


class SignedSliding(SignedWindows):
    """Sliding windows over signed items."""

    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        super().__init__(node, asked)
        assert isinstance(node.window, Sliding)
        self._window = node.window

    def _windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        return self._window.wid_bounds(ticks)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = self._final(progress)
        self._settle(bound)
        last: Bound = bound
        if bound not in (BEGINNING, END):
            last = last_closed(self._window, int(bound))
        yield from self._released(last)
        yield promised(self._window, last + 1, self.reached, progress.ended)


# Landmark windows (RANGE ALL) over signed items: those that have come and not been retracted.


class SignedLandmark(SignedWindows):
    """Landmark windows over signed items: all that have come and not been retracted."""

    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        super().__init__(node, asked)
        assert isinstance(node.window, Landmark)
        self._window = node.window
        self._high: Bound = BEGINNING  # how far the stream has come

    def _reach(self, tick: Bound) -> None:
        self._high = max(self._high, tick)

    def _windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        return self._window.first_wid(ticks), np.full(len(ticks), INT64_MAX)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        """Release windows as far as the stream has come, even if the bound is higher."""
        bound = self._final(progress)
        self._reach(self.bound.reached(progress))
        begun = self._settle(bound)
        closed = self._last_closed(bound)
        if self._high != BEGINNING and (len(begun) or self.next != BEGINNING):
            last = min(closed, self._wid(self._high))
            first = int(begun.min()) if self.next == BEGINNING else int(self.next)
            if first <= last:
                steps = [step for step in np.unique(begun).tolist() if first < step <= last]
                refuse_gaps(self.node, first, steps, int(last), MOST_WINDOWS)
            if last != BEGINNING:
                yield from self._released(last)
        upto = closed + 1 if self.next == BEGINNING else min(closed + 1, self.next)
        yield promised(self._window, upto, self.reached, progress.ended)

    def _wid(self, tick: Bound) -> int:
        return (int(tick) - self._window.origin) // self._window.slide

    def _last_closed(self, bound: Bound) -> Bound:
        return bound if bound in (BEGINNING, END) else self._wid(bound) - 1

    def open_results(self) -> OpenResults:
        """Windows up to the highest tick of the stream, which may stay open for ever."""
        if self._high == BEGINNING or (self.next == BEGINNING and not len(self.waiting)):
            return NOTHING_OPEN
        begun = self._window.first_wid(self.waiting.ticks)
        first = int(begun.min()) if self.next == BEGINNING else int(self.next)
        return open_spans((first, self._wid(self._high) + 1))

    def save(self, store: ChunkStore) -> None:
        super().save(store)
        store.put("high", self._high)

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        high = store.get("high")
        self._high = BEGINNING if high is None else high


# Slide-by-tuple windows over signed items: every n-th item opens one, positive or negative.

_Found: TypeAlias = tuple[Codes, Ints, list[pa.Array]]  # partitions, ids, keys and results


class SignedSlideByTuple(Base):
    """Slide-by-tuple windows over signed items."""

    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        assert isinstance(node.window, SlideByTuple)
        assert node.attribute is not None
        self.node = node
        self._window = node.window
        self._type = node.attribute.type
        self._id_type = node.schema.fields[0].type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self._in_time = in_time_of([node.attribute], node.input, asked)
        self._grace = 0 if asked is None else asked.grace(self._type)
        self._waiting = KeptItems(node.input.schema.arrow, tags=2)  # floor, and whether it opens
        self._parts = NetPartitions(node)
        self._highest: Bound = BEGINNING  # of the windows that had results
        self._looked = 0  # how often progress came since partitions were looked through

    # --- items -----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        if self._window.order is Order.RANK:
            given, keys, late = self._in_time.split_signed(batch)
            nothing = np.full(given.num_rows, NO_FLOOR)
            self._waiting.add(given, keys[0], (nothing, nothing))
            yield from late
            return
        ticks = to_ticks(self._attribute(batch.rows), self._type)
        opens = self._opens(batch.rows)
        floors, aside = self._late(batch, ticks)
        yield from aside
        opens &= floors == NO_FLOOR  # their own windows are gone
        self._waiting.add(batch.without_broken(), ticks, (floors, opens.astype(np.int64)))

    def _opens(self, rows: pa.RecordBatch) -> Mask:
        _, numbers = self._parts.numbers.number(rows)
        opens: Mask = numbers % self._window.every == 0
        return opens

    def _late(self, batch: Batch, ticks: Ints) -> tuple[Ints, list[LateRows]]:
        """First window in which each item counts, and the items that missed some."""
        floors = np.full(len(ticks), NO_FLOOR)
        if batch.broken is None:
            return floors, []
        rows, bounds = self._bound.broken(batch)
        below = ticks[rows] < bounds
        rows, bounds = rows[below], bounds[below]
        if not len(rows):
            return floors, []
        _, ends = self._window.wid_bounds(ticks[rows])
        missed = Missed(rows, bounds, ticks[rows], np.minimum(bounds, ends) - 1)
        late = missed.late_rows(batch.rows, self._type, self._id_type)
        if self._grace is None:  # all of them count
            return floors, [late]
        lost = ~exceeds_by_at_most(bounds, ticks[rows], self._grace)
        floors[rows[lost]] = bounds[lost] - self._grace
        return floors, [with_amended(late, ~lost) if self._grace else late]

    # --- windows ---------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        (bound,) = self._in_time.final(progress)
        settled = self._waiting.below(bound)
        if settled is not None:
            found = list(self._settled(*settled))
            if found:
                yield self._rows(found)
        self._forget(bound)
        yield self._promise(bound, progress.ended)

    def _settled(self, batch: Batch, ticks: Ints, tags: Ints) -> Iterator[_Found]:
        """Merge items in the order in which they happen, and emit the windows that they open."""
        floors, opens = tags
        by_rank = self._window.order is Order.RANK
        opening = self._opens(batch.rows) if by_rank else opens > 0
        parts = self._parts.numbers.codes(batch.rows)
        first, stop = self._window.wid_bounds(ticks)
        self._parts.settle(batch, parts, ticks, np.maximum(first, floors), stop)
        for part, own in by_part(parts[opening]):
            if part in self._parts.extents:
                ids, counts = np.unique(ticks[opening][own], return_counts=True)
                for of, columns in self._parts.of(part).at(ids, counts):
                    yield np.full(len(of), part), of, columns

    def _rows(self, found: list[_Found]) -> Batch:
        """Windows one after the other, those of several partitions by what these are called."""
        parts, ids = (np.concatenate([each[place] for each in found]) for place in (0, 1))
        self._highest = max(self._highest, int(ids.max()))
        columns = [
            pa.concat_arrays(each) for each in zip(*(columns for *_, columns in found), strict=True)
        ]
        by_value = self._parts.numbers.order_of(parts)
        order = by_value[stable_order(ids[by_value])]
        return Batch(windows_batch(self.node, [(ids[order], taken(columns, order))]))

    def _forget(self, bound: Bound) -> None:
        """Later windows are opened at or above the bound.  All partitions are looked through, but
        only as often as it costs little for each item."""
        self._looked += 1
        if bound in (BEGINNING, END) or self._looked < len(self._parts.extents):
            return
        self._looked = 0
        for part in list(self._parts.extents):
            self._parts.of(part).pass_(int(bound))
        self._parts.forget()

    def _promise(self, bound: Bound, ended: bool) -> Progress:
        if self.node.partition:
            return Progress(ended=ended)
        high = {} if self._highest == BEGINNING else self._bounds(int(self._highest))
        if ended or bound == BEGINNING:
            return Progress({}, high, ended)
        return Progress(self._bounds(int(bound)), high)

    def _bounds(self, wid: int) -> dict[str, Bound]:
        start, end = self._window.bounds(wid)
        return {"window_id": wid, "window_start": start, "window_end": end}

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return len(self._waiting) + len(self._parts)

    def open_results(self) -> OpenResults:
        """Items that wait: they open windows when the bound has passed them."""
        return OpenResults(others=len(self._waiting))

    def save(self, store: ChunkStore) -> None:
        self._waiting.save(Within(store, "waiting/"))
        self._parts.save(store)
        store.put("run", {"highest": self._highest})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._waiting.load(Within(store, "waiting/"))
            self._parts.load(store)
            self._highest = saved["highest"]


# Row windows over signed items: positive and negative ones are counted alike.


class SignedRows(Base):
    """Row windows over signed items: positive and negative ones are counted alike.  By rank, items
    wait for the bound and are counted then."""

    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        assert isinstance(node.window, RowWindow)
        self.node = node
        self._window = node.window
        self._over = node.window.over_rows
        attribute = node.attribute
        self._in_time = in_time_of([attribute], node.input, asked) if attribute else None
        self._waiting = KeptItems(node.input.schema.arrow)
        self._parts = NetPartitions(node)
        self._next: dict[int, int] = {}  # by partition, the first window not emitted
        self._highest: Bound = BEGINNING  # of the windows that had results
        self._ended = False

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if self._in_time is None:
            yield from self._count(batch)
            return
        given, ticks, late = self._in_time.split_signed(batch)
        self._waiting.add(given, ticks[0])
        yield from late

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        if self._in_time is not None:
            settled = self._waiting.below(self._in_time.final(progress)[0])
            if settled is not None:
                yield from self._count(settled[0])
        if progress.ended and not self._ended:
            self._ended = True
            yield from self._released({part: self._stop(part) for part in self._next})
            yield self._promise(ended=True)

    def _count(self, batch: Batch) -> Iterator[Item]:
        """Number items, and emit the windows whose end the count has passed."""
        if batch.num_rows == 0:
            return
        parts, numbers = self._parts.numbers.number(batch.rows)
        self._parts.settle(batch, parts, numbers, *self._windows_of(numbers))
        counts = self._parts.numbers.counts
        closed: dict[int, int] = {}
        for part, own in by_part(parts):
            self._next.setdefault(part, int(numbers[own[0]]) // self._window.slide)
            closed[part] = int(counts[part]) // self._window.slide
        released = list(self._released(closed))
        self._parts.forget()
        yield from released
        if released and not self._window.partitioned:
            yield self._promise(ended=False)

    def _windows_of(self, numbers: Ints) -> tuple[Ints, Ints]:
        if isinstance(self._over, Landmark):
            return self._over.first_wid(numbers), np.full(len(numbers), INT64_MAX)
        return self._over.wid_bounds(numbers)

    def _stop(self, part: int) -> int:
        """The one after the last window that has items, if no more come."""
        count = int(self._parts.numbers.counts[part])
        if self._window.range is None:
            return (count - 1) // self._window.slide + 1
        return (count - 1 + self._window.range) // self._window.slide

    def _released(self, closed: dict[int, int]) -> Iterator[Item]:
        """Emit the windows of each partition before the given one."""
        for part, stop in closed.items():
            if stop > self._next[part] and part in self._parts.extents:
                for ids, columns in self._parts.of(part).windows(self._next[part], stop):
                    self._highest = max(self._highest, int(ids[-1]))
                    yield Batch(windows_batch(self.node, [(ids, columns)]))
                self._parts.of(part).pass_(stop)
            self._next[part] = max(stop, self._next[part])

    def _promise(self, ended: bool) -> Progress:
        if self._window.partitioned or 0 not in self._next:
            return Progress(ended=ended)
        reached = None if self._highest == BEGINNING else int(self._highest) + 1
        return promised(self._over, self._next[0], reached, ended)

    def rows_held(self) -> int:
        return len(self._waiting) + len(self._parts)

    def open_results(self) -> OpenResults:
        """Partitions with items in windows that are not full."""
        kept = sum(len(each) > 0 for each in self._parts.extents.values())
        return OpenResults(others=kept or int(len(self._waiting) > 0))

    def save(self, store: ChunkStore) -> None:
        self._waiting.save(Within(store, "waiting/"))
        self._parts.save(store)
        registers = {"highest": self._highest, "ended": self._ended}
        parts = np.array(list(self._next), np.int64)
        windows = np.array(list(self._next.values()), np.int64)
        store.put("run", {**registers, "parts": parts, "next": windows})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._waiting.load(Within(store, "waiting/"))
        self._parts.load(store)
        self._highest, self._ended = saved["highest"], saved["ended"]
        self._next = dict(zip(saved["parts"].tolist(), saved["next"].tolist(), strict=True))
