"""AdaptWID: dense groups keep partial results, sparse groups keep their tuples (section 6.3).

Which takes less room is decided group by group with condition 6.9, from the group's window volume,
how long windows stay open, and the sizes in bytes of what is really kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.aggregates.counts import Counts
from penstock.operators.costs import eager_threshold
from penstock.operators.exact_sums import Floats, Ints
from penstock.operators.folding import Folder, Partials, Rows
from penstock.operators.operator import Item, Progress
from penstock.operators.release import Results
from penstock.operators.scatter import Codes, grown
from penstock.operators.wid import Bucket, Tagged, joined
from penstock.plan.aggregates import WindowAggregate

_PROBE = 1024  # rows that tell how large a partial result is before there are any


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A lazy group turns eager above `enter` times the threshold of condition 6.9, an eager one
    lazy below `leave` times it; the gap keeps groups from going to and fro.  (0, 0) is purely
    eager, (inf, inf) purely lazy."""

    enter: float = 1.0
    leave: float = 0.75


@dataclass(frozen=True, slots=True)
class StateBytes:
    buffer: int
    partials: int
    peak: int

    @property
    def total(self) -> int:
        return self.buffer + self.partials


@dataclass
class OpenWindow:
    """Partial results of one window by slot; how many tuples have it as their last one (the
    thesis's tupleCnt), also by slot; and the bytes of both."""

    partials: Partials
    expiring: Ints
    size: int = 0


class AdaptWid:
    """Group codes index `eager`, `volume` and `slot`.  An eager group has a slot, its place in the
    partial results of all windows; a group that has turned lazy again is in transition and keeps
    its slot until the last window it was folded into is out."""

    def __init__(
        self,
        node: WindowAggregate,
        thresholds: Thresholds | None = None,
        skew: Callable[[Codes], Floats] | None = None,
    ) -> None:
        """`skew` is for inputs of several sources: Σ vol_K · offset_K of some groups, in tuples."""
        self.node = node
        self.results = Results(node)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema)
        self.bucket = Bucket(node, self.folder)
        self.thresholds = thresholds or Thresholds()
        self._skew = skew
        self.eager: npt.NDArray[np.bool_] = np.zeros(1, np.bool_)
        self.volume: Ints = np.zeros(1, np.int64)
        self.slot: Ints = np.full(1, -1)
        self.owner: Ints = np.full(1, -1)  # the group of each slot
        self._until: Ints = np.zeros(1, np.int64)  # the last window each slot was folded into
        self.windows: dict[int, OpenWindow] = {}
        self.buffer: list[Tagged] = []
        self._lowest: Bound = END  # no buffered tuple is in a lower window
        self._buffer_bytes = self._partial_bytes = self._peak = 0
        self._tuple_bytes = self._aggregate_bytes = 0.0
        self._next: Bound = BEGINNING  # the first window that has not been released
        self.wed = self.bucket.window.range  # how long a window was open, lately
        self._low: Bound = BEGINNING
        self._high: Bound = BEGINNING
        self._opened: deque[tuple[int, Bound]] = deque()  # windows up to …, opened at low …

    def state_bytes(self) -> StateBytes:
        return StateBytes(self._buffer_bytes, self._partial_bytes, self._peak)

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: pa.RecordBatch) -> Iterable[Item]:  # noqa: ARG002
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
            self._fold(tagged if dense.all() else tagged.take(np.flatnonzero(dense)))
        if not dense.all():
            self._keep(tagged.take(np.flatnonzero(~dense)) if dense.any() else tagged)
        self._peak = max(self._peak, self._buffer_bytes + self._partial_bytes)

    def _observe(self, tagged: Tagged) -> None:
        """Make room for new groups; see how far the stream has come and how large things are."""
        size = len(self.folder.keys)
        self.eager = grown(self.eager, size, False)
        self.volume = grown(self.volume, size, 0)
        self.slot = grown(self.slot, size, -1)
        self._high = max(self._high, int(tagged.rows.positions.max()))
        newest = int(tagged.stop.max()) - 1
        if not self._opened or newest > self._opened[-1][0]:
            self._opened.append((newest, self._low))
        self._tuple_bytes = _bytes(tagged) / len(tagged)
        if not self._aggregate_bytes:
            some = tagged.rows.slice(0, min(_PROBE, len(tagged)))
            codes = np.unique(some.codes, return_inverse=True)[1]
            probe = self._new(int(codes.max()) + 1)
            self._fold_into(probe, Rows(codes, some.positions, some.arguments))
            self._aggregate_bytes = _bytes(probe) / len(probe.expiring)

    def threshold(self, groups: Codes) -> Floats:
        """Condition 6.9's right-hand side for some groups, in tuples.  The partial results of a
        holistic aggregate hold its tuples, once per window, so they never take less room."""
        aggr = self._aggregate_bytes
        if any(aggregate.holistic for aggregate in self.folder.aggregates):
            aggr = float("inf")
        limit = eager_threshold(aggr, self._tuple_bytes, self.wed, self.bucket.window.slide)
        return np.full(len(groups), limit) + (self._skew(groups) if self._skew else 0.0)

    def _turn_eager(self, groups: Codes) -> None:
        """Those of the groups that have become dense: what the buffer has of them is folded."""
        groups = groups[~self.eager[groups]]
        factor = self.thresholds.enter
        limit = factor * self.threshold(groups) if factor else np.zeros(len(groups))
        groups = groups[self.volume[groups] > limit]
        if not len(groups):
            return
        self.eager[groups] = True
        self._assign(groups[self.slot[groups] < 0])
        if self.buffer:
            buffered = joined(self.buffer)
            moves = self.eager[buffered.rows.codes]
            if moves.any():
                self._fold(buffered.take(np.flatnonzero(moves)))
                self._set_buffer(buffered.take(np.flatnonzero(~moves)))

    def _assign(self, groups: Codes) -> None:
        free = np.flatnonzero(self.owner < 0)[: len(groups)]
        used = len(self.owner)
        slots = np.concatenate([free, np.arange(used, used + len(groups) - len(free))])
        size = used + len(groups) - len(free)
        self.owner = np.concatenate([self.owner, np.full(size - used, -1)])
        self._until = np.concatenate([self._until, np.zeros(size - used, np.int64)])
        self.owner[slots], self.slot[groups] = groups, slots

    def _fold(self, tagged: Tagged) -> None:
        """Into the partial results of all windows that are still open."""
        window = self.bucket.window
        ordered = tagged.in_order(window)
        slots = self.slot[ordered.rows.codes]
        rows = Rows(slots, ordered.rows.positions, ordered.rows.arguments)
        ordered = Tagged(rows, ordered.first, ordered.stop, ordered.raised)
        np.maximum.at(self._until, slots, ordered.stop - 1)
        for wid, inside in ordered.extents(window, self._next):
            found = self._open(wid)
            self._partial_bytes -= found.size
            self._fold_into(found, inside)
            self._partial_bytes += found.size
        lasts = ordered.stop - 1
        cuts = np.flatnonzero(np.append(True, np.diff(lasts) != 0))
        for begin, end in zip(cuts, [*cuts[1:], len(lasts)], strict=True):
            np.add.at(self.windows[int(lasts[begin])].expiring, slots[begin:end], 1)

    def _open(self, wid: int) -> OpenWindow:
        found = self.windows.get(wid)
        if found is None:
            found = self.windows[wid] = self._new(len(self.owner))
        return found

    def _new(self, size: int) -> OpenWindow:
        parts = [aggregate.new(size) for aggregate in self.folder.aggregates]
        return OpenWindow(Partials(Counts(size), parts), np.zeros(size, np.int64))

    def _fold_into(self, window: OpenWindow, rows: Rows) -> None:
        """`Folder.fold` with room for the slots instead of for all groups."""
        size, partials = int(rows.codes.max()) + 1, window.partials
        window.expiring = grown(window.expiring, size, 0)
        if size > len(partials.rows.rows):
            partials.rows.grow(size)
        pairs = zip(self.folder.aggregates, partials.parts, rows.arguments, strict=True)
        partials.rows.fold(rows.codes)
        for aggregate, part, arguments in pairs:
            aggregate.grow(part, len(partials.rows.rows))
            chosen = slice(None) if arguments.chosen is None else arguments.chosen
            codes, positions = rows.codes[chosen], rows.positions[chosen]
            if len(codes):
                aggregate.fold(part, codes, arguments.columns, positions)
        window.size = _bytes((partials, window.expiring))

    def _keep(self, tagged: Tagged) -> None:
        self.buffer.append(tagged)
        self._lowest = min(self._lowest, int(tagged.first.min()))
        self._buffer_bytes += _bytes(tagged)

    def _set_buffer(self, tagged: Tagged) -> None:
        self.buffer, self._buffer_bytes, self._lowest = [], 0, END
        if len(tagged):
            self._keep(tagged)

    # --- progress --------------------------------------------------------------------------------

    def on_progress(self, port: int, progress: Progress) -> Iterable[Item]:  # noqa: ARG002
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
        if not self.buffer and not self.windows:
            return False
        return min(self._lowest, *self.windows, END) <= last and self._next <= last

    def _release(self, last: Bound, results: Results) -> None:
        window = self.bucket.window
        lazy: dict[int, Rows] = {}
        if self.buffer:
            buffered = joined(self.buffer).in_order(window)
            lazy = dict(buffered.extents(window, self._next, last))
            expired = buffered.stop <= last + 1
            np.subtract.at(self.volume, buffered.rows.codes[expired], 1)
            self._set_buffer(buffered.take(np.flatnonzero(~expired)))
        for wid in sorted({*lazy, *(wid for wid in self.windows if wid <= last)}):
            rows, eager = lazy.get(wid), self.windows.pop(wid, None)
            if eager is not None:
                self._partial_bytes -= eager.size
                rows = self._finish_eager(wid, eager, rows, results)
            if rows is not None and len(rows):
                groups, codes = np.unique(rows.codes, return_inverse=True)
                found = self._new(len(groups))
                self._fold_into(found, Rows(codes, rows.positions, rows.arguments))
                results.add(wid, self._finished(found, groups, np.arange(len(groups))))
        self._next = last + 1

    def _finish_eager(
        self, wid: int, window: OpenWindow, rows: Rows | None, results: Results
    ) -> Rows | None:
        """The groups with partial results, after folding what the buffer has of them (transition);
        the rows of others are given back."""
        if rows is not None:
            slots = self.slot[rows.codes]
            both = slots >= 0
            if both.any():
                mine = rows.take(np.flatnonzero(both))
                self._fold_into(window, Rows(slots[both], mine.positions, mine.arguments))
                rows = rows.take(np.flatnonzero(~both))
        slots = np.flatnonzero(window.partials.rows.rows)
        results.add(wid, self._finished(window, self.owner[slots], slots))
        expiring = np.flatnonzero(window.expiring)
        self.volume[self.owner[expiring]] -= window.expiring[expiring]
        return rows

    def _finished(self, window: OpenWindow, groups: Codes, places: Codes) -> list[pa.Array]:
        parts = zip(self.folder.aggregates, window.partials.parts, strict=True)
        finished = [aggregate.finish(part, places) for aggregate, part in parts]
        return [*self.folder.keys.take(groups), *finished]

    def _close(self, last: Bound) -> None:
        """After windows are out: how long they were open, and what that means for groups."""
        while self._opened and self._opened[0][0] < last:
            self._opened.popleft()
        if self._opened and self._opened[0][1] != BEGINNING:
            opened = int(self._opened[0][1])
            self.wed = max(self.bucket.window.slide, int(self._high) - opened)
        if self.windows:
            kept = [each for each in self.windows.values() if each.size]
            places = sum(len(each.expiring) for each in kept)
            self._aggregate_bytes = sum(each.size for each in kept) / places
        groups = np.flatnonzero(self.eager)
        factor = self.thresholds.leave
        limit = factor * self.threshold(groups) if factor else np.zeros(len(groups))
        sparse = (self.volume[groups] < limit) | (self.volume[groups] == 0)
        self.eager[groups[sparse]] = False
        idle = np.flatnonzero(self.owner >= 0)
        idle = idle[~self.eager[self.owner[idle]] & (self._until[idle] <= last)]
        self.slot[self.owner[idle]] = -1
        self.owner[idle] = -1
        used = np.flatnonzero(self.owner >= 0)
        self.owner = self.owner[: used[-1] + 1 if len(used) else 0]
        self._until = self._until[: len(self.owner)]


def _bytes(kept: Any) -> int:
    """The bytes of all arrays in a piece of state; a Python value counts as the pointer to it."""
    if isinstance(kept, np.ndarray | pa.Array):
        return int(kept.nbytes)
    if isinstance(kept, list | tuple):
        return sum(_bytes(each) for each in kept)
    names: Iterable[str] = getattr(kept, "__slots__", ()) or getattr(kept, "__dict__", ())
    return sum(_bytes(getattr(kept, name)) for name in names)
