"""AdaptWID: window aggregation by window ids that chooses, group by group, between partial results
of open windows (eager) and buffered tuples (lazy); section 6.3 of the thesis.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.aggregates.aggregate import ByGroup
from penstock.kernel.aggregates.extremes import KeptValues
from penstock.kernel.aggregates.sums import Counts
from penstock.kernel.batch import Batch
from penstock.kernel.grouping.folding import DeadKeys, Folder, Partials, Rows
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.operator import (
    Base,
    Item,
    OpenResults,
    Progress,
    at_once,
    open_spans,
    open_windows,
)
from penstock.kernel.state import AppendLog, ChunkStore, Within, required
from penstock.kernel.windows.open_windows import AdoptedPieces, OpenPieces, exported, pieces_of_rows
from penstock.kernel.windows.panes import LatePanes
from penstock.kernel.windows.results import Results
from penstock.kernel.windows.wid import Tagged, Tagger, joined, spans_of
from penstock.kernel.windows.window_costs import eager_threshold
from penstock.model.arrays import Codes, Floats, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Sliding

_NONE = np.iinfo(np.int64).min  # before every window


# The eager half: partial results of open windows, for the groups that have a slot.


@dataclass
class OpenWindow:
    """Partial results of one window by slot; how many tuples have it as their last one (the
    thesis's tupleCnt), also by slot; and the bytes of both."""

    partials: Partials
    expiring: Ints
    size: int = 0


class EagerWindows:
    """Partial results of open windows by slot.

    A group has a slot, its place in the partial results of all windows, from when it turns eager
    until the last window that it was folded into is out.
    """

    def __init__(self, folder: Folder, window: Sliding) -> None:
        self._folder = folder
        self._window = window
        self.slot: Ints = np.full(1, -1)  # of each group
        self.owner: Ints = np.full(1, -1)  # the group of each slot
        self._until: Ints = np.full(1, _NONE)  # the last window each slot was folded into
        self.open: dict[int, OpenWindow] = {}
        self.bytes = 0
        self._touched: set[int] = set()  # windows, since the last save
        self._stored: set[int] = set()

    def grow(self, groups: int) -> None:
        self.slot = grown(self.slot, groups, -1)

    def assign(self, groups: Codes) -> None:
        """Give slots to those of the groups that have none."""
        groups = groups[self.slot[groups] < 0]
        free = np.flatnonzero(self.owner < 0)[: len(groups)]
        used = len(self.owner)
        slots = np.concatenate([free, np.arange(used, used + len(groups) - len(free))])
        size = used + len(groups) - len(free)
        self.owner = np.concatenate([self.owner, np.full(size - used, -1)])
        self._until = np.concatenate([self._until, np.full(size - used, _NONE)])
        self.owner[slots], self.slot[groups], self._until[slots] = groups, slots, _NONE

    def fold(self, tagged: Tagged, start: Bound) -> None:
        """Fold rows into the partial results of the windows from `start` on; all groups must have
        slots."""
        ordered = tagged.in_order(self._window)
        slots = self.slot[ordered.rows.codes]
        rows = Rows(slots, ordered.rows.positions, ordered.rows.arguments)
        ordered = Tagged(rows, ordered.first, ordered.stop, ordered.raised)
        np.maximum.at(self._until, slots, ordered.stop - 1)
        for wid, inside in ordered.extents(self._window, start):
            found = self.open.get(wid)
            if found is None:
                found = self.open[wid] = self.new(len(self.owner))
            self.bytes -= found.size
            self.fold_into(found, inside)
            self.bytes += found.size
            self._touched.add(wid)
        lasts = ordered.stop - 1
        cuts = np.flatnonzero(np.append(True, np.diff(lasts) != 0))
        for begin, end in zip(cuts, [*cuts[1:], len(lasts)], strict=True):
            np.add.at(self.open[int(lasts[begin])].expiring, slots[begin:end], 1)

    def new(self, size: int) -> OpenWindow:
        parts = [aggregate.new(size) for aggregate in self._folder.aggregates]
        return OpenWindow(Partials(Counts(size), parts), np.zeros(size, np.int64))

    def fold_into(self, window: OpenWindow, rows: Rows) -> None:
        """`Folder.fold` with room for the slots instead of for all groups."""
        size, partials = int(rows.codes.max()) + 1, window.partials
        window.expiring = grown(window.expiring, size, 0)
        if size > len(partials.rows.rows):
            partials.rows.grow(size)
        pairs = zip(self._folder.aggregates, partials.parts, rows.arguments, strict=True)
        partials.rows.fold(rows.codes)
        for aggregate, part, arguments in pairs:
            aggregate.grow(part, len(partials.rows.rows))
            chosen = slice(None) if arguments.chosen is None else arguments.chosen
            codes, positions = rows.codes[chosen], rows.positions[chosen]
            if len(codes):
                aggregate.fold(part, codes, arguments.columns, positions)
        window.size = bytes_of((partials, window.expiring))

    def finish(self, window: OpenWindow, groups: Codes, places: Codes) -> list[pa.Array]:
        """The keys of groups, and their results at some places."""
        parts = zip(self._folder.aggregates, window.partials.parts, strict=True)
        finished = [aggregate.finish(part, places) for aggregate, part in parts]
        return [*self._folder.keys.take(groups), *finished]

    def close(self, wid: int) -> OpenWindow | None:
        """Take out a window."""
        found = self.open.pop(wid, None)
        self._touched.discard(wid)
        if found is not None:
            self.bytes -= found.size
        return found

    def free(self, eager: Mask, last: Bound) -> None:
        """Give up the slots of groups that are not eager any more, once their windows are out."""
        idle = np.flatnonzero(self.owner >= 0)
        idle = idle[~eager[self.owner[idle]] & (self._until[idle] <= last)]
        self.slot[self.owner[idle]] = -1
        self.owner[idle] = -1
        used = np.flatnonzero(self.owner >= 0)
        self.owner = self.owner[: used[-1] + 1 if len(used) else 0]
        self._until = self._until[: len(self.owner)]

    def by_group(self, window: OpenWindow) -> tuple[Codes, Partials]:
        """The groups that a window has, and their partial results, numbered apart."""
        slots = np.flatnonzero(window.partials.rows.rows)
        return self.owner[slots], self._folder.take_apart(window.partials, slots)

    # --- state -----------------------------------------------------------------------------------

    def renumber(self, codes: Codes, place: Codes) -> None:
        """The groups in `codes` stay and get new numbers; slots stay as they are."""
        self.slot = self.slot[codes]
        used = self.owner >= 0
        self.owner[used] = place[self.owner[used]]
        self._touched.update(self.open)

    def save(self, store: ChunkStore) -> None:
        """A chunk per window, by group: which slot a group has is not worth keeping."""
        for wid in self._touched & self.open.keys():
            window = self.open[wid]
            slots = np.flatnonzero(window.partials.rows.rows)
            pairs = zip(self._folder.aggregates, window.partials.parts, strict=True)
            parts = [aggregate.take(part, slots) for aggregate, part in pairs]
            taken = Partials(window.partials.rows.take(slots), parts)
            saved = self._folder.save(taken, self.owner[slots])
            store.put(f"windows/{wid}", {**saved, "expiring": window.expiring[slots]})
            self._stored.add(wid)
        for wid in self._stored - self.open.keys():
            store.drop(f"windows/{wid}")
        self._stored &= self.open.keys()
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        names = [name for name in store.names() if name.startswith("windows/")]
        self._stored = {int(name.partition("/")[2]) for name in names}
        self.grow(len(self._folder.keys))
        for wid in sorted(self._stored):
            chunk = required(store, f"windows/{wid}")
            codes, partials = self._folder.load_apart(chunk)
            self.assign(codes)
            slots, size = self.slot[codes], len(self.owner)
            pairs = zip(self._folder.aggregates, partials.parts, strict=True)
            parts = [aggregate.spread(part, slots, size) for aggregate, part in pairs]
            window = OpenWindow(
                Partials(partials.rows.spread(slots, size), parts), np.zeros(size, np.int64)
            )
            window.expiring[slots] = chunk["expiring"]
            window.size = bytes_of((window.partials, window.expiring))
            self.bytes += window.size
            self.open[wid] = window
            np.maximum.at(self._until, slots[chunk["expiring"] > 0], wid)


def bytes_of(kept: Any) -> int:
    """The bytes of all arrays in a piece of state; a Python value counts as the pointer to it."""
    if isinstance(kept, np.ndarray | pa.Array | ByGroup | KeptValues):
        return int(kept.nbytes)
    if isinstance(kept, list | tuple):
        return sum(bytes_of(each) for each in kept)
    if not type(kept).__module__.startswith("penstock.kernel"):
        return 0  # types and functions are not state
    names: Iterable[str] = getattr(kept, "__slots__", ()) or getattr(kept, "__dict__", ())
    return sum(bytes_of(getattr(kept, name)) for name in names)


# AdaptWID: dense groups keep partial results, sparse groups keep their tuples (section 6.3).
#
# Which takes less room is decided group by group with condition 6.9, from the group's window
# volume, how long windows stay open, and the sizes in bytes of what is really kept.

_PROBE = 1024  # rows that tell how large a partial result is before there are any


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds at which groups turn eager or lazy.

    A lazy group turns eager above `enter` times the threshold of condition 6.9, an eager one
    lazy below `leave` times it; the gap keeps groups from going to and fro.  (0, 0) is purely
    eager, (inf, inf) purely lazy.
    """

    enter: float = 1.0
    leave: float = 0.75


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes of the buffer and of partial results, and the highest total so far."""

    buffer: int
    partials: int
    peak: int

    @property
    def total(self) -> int:
        return self.buffer + self.partials


class AdaptWid(Base):
    """The operator of AdaptWID.

    Group codes index `eager` and `volume`.  An eager group has a slot in the partial results of
    windows; a group that has turned lazy again is in transition and keeps its slot until the last
    window it was folded into is out.
    """

    def __init__(
        self,
        node: WindowAggregate,
        thresholds: Thresholds | None = None,
        skew: Callable[[Codes], Floats] | None = None,
    ) -> None:
        """`skew` is for inputs of several sources: Σ vol_K · offset_K of some groups, in tuples."""
        self.node = node
        self.results = Results(node)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.bucket = Tagger(node, self.folder)
        self.thresholds = thresholds or Thresholds()
        self._skew = skew
        self.eager: Mask = np.zeros(1, np.bool_)
        self.volume: Ints = np.zeros(1, np.int64)
        self.windows = EagerWindows(self.folder, self.bucket.window)
        self.buffer: list[Tagged] = []
        self._lowest: Bound = END  # no buffered tuple is in a lower window
        self._buffer_bytes = self._peak = 0
        self._tuple_bytes = self._aggregate_bytes = 0.0
        self._next: Bound = BEGINNING  # the first window that has not been released
        self.wed = self.bucket.window.range  # how long a window was open, lately
        self._low: Bound = BEGINNING
        self._high: Bound = BEGINNING
        self._opened: deque[tuple[int, Bound]] = deque()  # windows up to …, opened at low …
        self._log = AppendLog("rows")  # the buffer as it came, and the groups that left it
        self._dead = DeadKeys(self.folder)
        self.adopted = AdoptedPieces(self.folder, self.bucket.window)

    def state_bytes(self) -> StateBytes:
        return StateBytes(self._buffer_bytes, self.windows.bytes, self._peak)

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        tagged, late = self.bucket.tag(batch)
        if late is not None:
            yield late
        if not len(tagged):
            return
        self._observe(tagged)
        codes = tagged.rows.codes
        np.add.at(self.volume, codes, 1)
        self._turn_eager(np.unique(codes))
        dense = self.eager[codes]
        if dense.any():
            own = tagged if dense.all() else tagged.take(np.flatnonzero(dense))
            self.windows.fold(own, self._next)
        if not dense.all():
            own = tagged.take(np.flatnonzero(~dense)) if dense.any() else tagged
            self._keep(own)
            self._log.append(own.save(), int(own.stop.max()))
        self._peak = max(self._peak, self._buffer_bytes + self.windows.bytes)

    def _observe(self, tagged: Tagged) -> None:
        """Make room for new groups; note the highest tick of the stream, and sizes in bytes."""
        size = len(self.folder.keys)
        self.eager = grown(self.eager, size, False)
        self.volume = grown(self.volume, size, 0)
        self.windows.grow(size)
        self._high = max(self._high, int(tagged.rows.positions.max()))
        newest = int(tagged.stop.max()) - 1
        if not self._opened or newest > self._opened[-1][0]:
            self._opened.append((newest, self._low))
        self._tuple_bytes = bytes_of(tagged) / len(tagged)
        if not self._aggregate_bytes:
            some = tagged.rows.slice(0, min(_PROBE, len(tagged)))
            codes = np.unique(some.codes, return_inverse=True)[1]
            probe = self.windows.new(int(codes.max()) + 1)
            self.windows.fold_into(probe, Rows(codes, some.positions, some.arguments))
            self._aggregate_bytes = bytes_of(probe) / len(probe.expiring)

    def threshold(self, groups: Codes) -> Floats:
        """Condition 6.9's right-hand side for some groups, in tuples.

        The condition takes it that a group is in all windows that are open.  One of few tuples is
        not: if partial results for all windows of a tuple take no more room than the tuple, every
        group is better off with them.  Those of a holistic aggregate hold its tuples, once per
        window, so they never take less room."""
        aggr, window = self._aggregate_bytes, self.bucket.window
        if any(aggregate.holistic for aggregate in self.folder.aggregates):
            aggr = float("inf")
        if aggr * -(-window.range // window.slide) <= self._tuple_bytes:
            return np.zeros(len(groups))
        limit = eager_threshold(aggr, self._tuple_bytes, self.wed, window.slide)
        return np.full(len(groups), limit) + (self._skew(groups) if self._skew else 0.0)

    def _limit(self, factor: float, groups: Codes) -> Floats:
        if not len(groups):  # perhaps there has been no tuple yet
            return np.zeros(0)
        if factor in (0.0, float("inf")):  # for any threshold, even zero or infinite
            return np.full(len(groups), factor)
        return factor * self.threshold(groups)

    def _turn_eager(self, groups: Codes) -> None:
        """Turn groups eager that have become dense: their buffered tuples are folded."""
        groups = groups[~self.eager[groups]]
        groups = groups[self.volume[groups] > self._limit(self.thresholds.enter, groups)]
        if not len(groups):
            return
        self.eager[groups] = True
        self.windows.assign(groups)
        if self.buffer:
            buffered = joined(self.buffer)
            moves = self.eager[buffered.rows.codes]
            if moves.any():
                moving = buffered.take(np.flatnonzero(moves))
                self.windows.fold(moving, self._next)
                self._set_buffer(buffered.take(np.flatnonzero(~moves)))
                self._log.append({"left": np.unique(moving.rows.codes)}, int(moving.stop.max()))

    def _keep(self, tagged: Tagged) -> None:
        self.buffer.append(tagged)
        self._lowest = min(self._lowest, int(tagged.first.min()))
        self._buffer_bytes += bytes_of(tagged)

    def _set_buffer(self, tagged: Tagged) -> None:
        self.buffer, self._buffer_bytes, self._lowest = [], 0, END
        if len(tagged):
            self._keep(tagged)

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        """Release the windows that end at or below the bound, let tuples expire, and turn groups
        lazy that have become sparse."""
        self._low = self.bucket.promised(progress)
        last = self.bucket.last_closed(self._low)
        results = self.results
        if self._has_upto(last):
            self._release(last, results)
            self._close(last)
        batch = results.batch()
        if batch is not None:
            yield batch
        yield results.progress(last, progress.ended)

    def _has_upto(self, last: Bound) -> bool:
        """Whether some tuple is in a window that is to be released."""
        if not self.buffer and not self.windows.open and not self.adopted:
            return False
        lowest = min(self._lowest, self.adopted.lowest(), *self.windows.open)
        return lowest <= last and self._next <= last

    def _release(self, last: Bound, results: Results) -> None:
        window = self.bucket.window
        lazy: dict[int, Rows] = {}
        if self.buffer:
            buffered = joined(self.buffer).in_order(window)
            lazy = dict(buffered.extents(window, self._next, last))
            expired = buffered.stop <= last + 1
            np.subtract.at(self.volume, buffered.rows.codes[expired], 1)
            self._set_buffer(buffered.take(np.flatnonzero(~expired)))
        open_ = {*self.adopted.windows(self._next, last), *self.windows.open}
        for wid in sorted({*lazy, *(wid for wid in open_ if wid <= last)}):
            rows, eager = lazy.get(wid), self.windows.close(wid)
            adopted = self.adopted.of(wid)
            if adopted is not None:
                results.add(wid, self._finish_adopted(adopted, eager, rows))
                continue
            found: list[tuple[Codes, list[pa.Array]]] = []
            if eager is not None:
                groups, columns, rows = self._finish_eager(eager, rows)
                found.append((groups, columns))
            if rows is not None and len(rows):
                groups, codes = np.unique(rows.codes, return_inverse=True)
                window_ = self.windows.new(len(groups))
                self.windows.fold_into(window_, Rows(codes, rows.positions, rows.arguments))
                columns = self.windows.finish(window_, groups, np.arange(len(groups)))
                found.append((groups, columns))
            results.add(wid, self._in_key_order(found))
        self._next = last + 1
        self.adopted.pass_(self._next)
        self._log.pass_(self._next)

    def _in_key_order(self, found: list[tuple[Codes, list[pa.Array]]]) -> list[pa.Array]:
        """The groups of a window, eager and lazy ones together."""
        order = pa.array(self.folder.keys.order_of(np.concatenate([codes for codes, _ in found])))
        joined_ = [pa.concat_arrays(parts) for parts in zip(*(c for _, c in found), strict=True)]
        return [column.take(order) for column in joined_]

    def _finish_eager(
        self, window: OpenWindow, rows: Rows | None
    ) -> tuple[Codes, list[pa.Array], Rows | None]:
        """The groups with partial results, after folding their buffered tuples (transition); the
        rows of other groups are returned."""
        if rows is not None:
            slots = self.windows.slot[rows.codes]
            both = slots >= 0
            if both.any():
                mine = rows.take(np.flatnonzero(both))
                self.windows.fold_into(window, Rows(slots[both], mine.positions, mine.arguments))
                rows = rows.take(np.flatnonzero(~both))
        slots, owner = np.flatnonzero(window.partials.rows.rows), self.windows.owner
        groups = owner[slots]
        columns = self.windows.finish(window, groups, slots)
        self._let_expire(window)
        return groups, columns, rows

    def _let_expire(self, window: OpenWindow) -> None:
        expiring = np.flatnonzero(window.expiring)
        self.volume[self.windows.owner[expiring]] -= window.expiring[expiring]

    def _finish_adopted(
        self, content: Partials, eager: OpenWindow | None, rows: Rows | None
    ) -> list[pa.Array]:
        """All groups of a window that has adopted pieces, with all their other tuples."""
        if rows is not None and len(rows):
            self.folder.fold(content, rows)
        if eager is not None:
            groups, partials = self.windows.by_group(eager)
            self.folder.merge(content, self.folder.spread(partials, groups))
            self._let_expire(eager)
        return self.folder.finish(content, self.folder.present(content))

    def _close(self, last: Bound) -> None:
        """After windows are out: how long they were open, and what that means for groups."""
        while self._opened and self._opened[0][0] < last:
            self._opened.popleft()
        if self._opened and self._opened[0][1] != BEGINNING:
            opened = int(self._opened[0][1])
            self.wed = max(self.bucket.window.slide, int(self._high) - opened)
        if self.windows.open:
            kept = [each for each in self.windows.open.values() if each.size]
            places = sum(len(each.expiring) for each in kept)
            self._aggregate_bytes = sum(each.size for each in kept) / places
        groups = np.flatnonzero(self.eager)
        limit = self._limit(self.thresholds.leave, groups)
        sparse = (self.volume[groups] < limit) | (self.volume[groups] == 0)
        self.eager[groups[sparse]] = False
        self.windows.free(self.eager, last)
        self._dead.forget(self._mark, self._renumber)

    def rows_held(self) -> int:
        return sum(map(len, self.buffer))

    def open_results(self) -> OpenResults:
        spans = [*spans_of(self.buffer, self._next), *self.adopted.spans(self._next)]
        return open_windows(self.windows.open) | open_spans(*spans)

    # --- state -----------------------------------------------------------------------------------

    def _mark(self, live: Mask) -> None:
        volume = self.volume[: len(live)]  # a group that has been in no window has none yet
        live[: len(volume)] |= volume > 0
        self.adopted.mark(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        self.eager, self.volume = self.eager[codes], self.volume[codes]
        self.windows.renumber(codes, place)
        self.buffer = [each.renumbered(place) for each in self.buffer]
        self.adopted.renumber(codes, place)
        self._log.begin_anew()

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self.windows.save(store)
        self._log.save(store, lambda: [(each.save(), int(each.stop.max())) for each in self.buffer])
        self.adopted.save(Within(store, "adopted/"))
        sizes = {"tuple": self._tuple_bytes, "aggregate": self._aggregate_bytes, "peak": self._peak}
        seen = {"low": self._low, "high": self._high, "wed": self.wed, "opened": list(self._opened)}
        results = self.results.save()
        store.put("run", {"next": self._next, "results": results, "bytes": sizes, **seen})

    def load(self, store: ChunkStore) -> None:
        """Groups in transition become eager again; that changes no answer, and is soon made up for.
        Volumes follow from what is kept."""
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self.results.load(saved["results"])
        self._next, sizes = saved["next"], saved["bytes"]
        self._tuple_bytes, self._aggregate_bytes = sizes["tuple"], sizes["aggregate"]
        self._peak, self.wed = sizes["peak"], saved["wed"]
        self._low, self._high = saved["low"], saved["high"]
        self._opened = deque((newest, low) for newest, low in saved["opened"])
        self.windows.load(store)
        size = len(self.folder.keys)
        self.eager = self.windows.slot >= 0
        self.volume = grown(self.volume, size, 0)
        for window in self.windows.open.values():
            slots = np.flatnonzero(window.expiring)
            self.volume[self.windows.owner[slots]] += window.expiring[slots]
        self._load_buffer(store)
        self.adopted.load(Within(store, "adopted/"), self._next)

    def _load_buffer(self, store: ChunkStore) -> None:
        left = np.zeros(max(1, len(self.folder.keys)), np.bool_)
        found = []
        for piece in reversed(self._log.load(store)):
            if "left" in piece:
                left[piece["left"]] = True  # with all their tuples before
                continue
            tagged = Tagged.load(piece)
            kept = (tagged.stop > self._next) & ~left[tagged.rows.codes]
            if kept.any():
                found.append(tagged.take(np.flatnonzero(kept)))
        for tagged in reversed(found):
            self._keep(tagged)
            np.add.at(self.volume, tagged.rows.codes, 1)

    def export(self) -> OpenPieces:
        return exported(self.folder, self._pieces(), self._next, self.results)

    def _pieces(self) -> Iterator[LatePanes]:
        yield from self.adopted.pieces(self._next)
        if self.buffer:
            kept = joined(self.buffer)
            last = kept.stop - 1
            yield from pieces_of_rows(self.folder, kept.rows, kept.first, last, self._next)
        for wid, window in self.windows.open.items():
            yield LatePanes(wid, wid, *self.windows.by_group(window))

    def adopt(self, state: OpenPieces) -> None:
        """Continue from exported pieces; groups begin as sparse ones, and pieces count for none of
        them."""
        self._next = state.released
        self.adopted.adopt(state)
        size = len(self.folder.keys)
        self.eager, self.volume = grown(self.eager, size, False), grown(self.volume, size, 0)
        self.windows.grow(size)
        self.results.load(state.highest)
