"""Slide-by-tuple windows: every n-th tuple opens one that reaches RANGE ticks back from it.  Tuples
that may be in no window, tuples by partition, and the operator (figure 6-7 of the thesis).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.grouping.folding import DeadKeys, Folder, Rows
from penstock.kernel.groups.group_by import InTime
from penstock.kernel.operator import Base, Item, OpenResults, Progress, at_once
from penstock.kernel.state import AppendLog, ChunkStore, Tree
from penstock.kernel.windows.counted_rows import (
    Extents,
    Partition,
    Partitions,
    Waiting,
    known,
    local_folder,
    localized,
)
from penstock.kernel.windows.landmark import runs_of
from penstock.kernel.windows.results import Missed
from penstock.kernel.windows.row_windows import windows_batch
from penstock.model.arrays import Codes, Ints, Mask, exceeds_by_at_most, floor_div, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.expressions import Column, Literal
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Order, SlideByTuple

_Tuples: TypeAlias = tuple[pa.RecordBatch, Ints, Codes]  # with their ticks and partitions


# Tuples of slide-by-tuple windows of which it is not known yet whether a window contains them.
#
# Where every n-th tuple opens a window, some tuples are in none, and that is only known when the
# next window of their partition is opened.  Until then they are kept unevaluated: expressions over
# them need not have a value.


def may_fail(node: WindowAggregate) -> bool:
    """Whether keys, filters or arguments are computed from tuples, and may have no value for some
    of them."""
    calls = [each.call for each in node.aggregates]
    looked_at = [key.expression for key in node.keys]
    looked_at += [argument for call in calls for argument in call.arguments]
    filtered = any(call.where is not None for call in calls)
    return filtered or not all(isinstance(each, Column | Literal) for each in looked_at)


class Undecided:
    """Tuples of which it is not known yet whether a window contains them."""

    def __init__(self, length: int) -> None:
        self._range = length
        self._kept: _Tuples | None = None

    def decide(self, given: _Tuples, opens: Mask, bound: Bound) -> _Tuples:
        """Add all tuples up to a bound, of which some open windows; return those, by value, that a
        window contains by now.  Tuples that no later window can contain are dropped."""
        _, ticks, parts = given
        ids, of = ticks[opens], parts[opens]
        if self._kept is not None:
            given = _joined(self._kept, given)
        _, ticks, parts = given
        passed, nearest = next_opened(ticks, parts, ids, of)
        contained = passed.copy()
        contained[passed] = exceeds_by_at_most(nearest, ticks[passed], self._range - 1)
        waiting = ~passed
        if bound == END:
            waiting[:] = False
        elif bound != BEGINNING:
            limits = np.full(int(np.count_nonzero(waiting)), int(bound), np.int64)
            waiting[waiting] = exceeds_by_at_most(limits, ticks[waiting], self._range - 1)
        self._kept = _some(given, waiting) if waiting.any() else None
        return _some(given, contained)

    def save(self, store: ChunkStore) -> None:
        if self._kept is None:
            store.drop("undecided")
        else:
            batch, ticks, parts = self._kept
            store.put("undecided", {"batch": batch, "ticks": ticks, "parts": parts})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("undecided")
        if saved is not None:
            self._kept = saved["batch"], saved["ticks"], saved["parts"]


def next_opened(ticks: Ints, parts: Codes, ids: Ints, of: Codes) -> tuple[Mask, Ints]:
    """Mask of the tuples that have a window of their partition at or above them, and for those its
    id.

    >>> ids, of = np.array([5, 9, 3]), np.array([0, 0, 1])
    >>> next_opened(np.array([4, 6, 9, 4, 2]), np.array([0, 0, 0, 1, 1]), ids, of)
    (array([ True,  True,  True, False,  True]), array([5, 9, 9, 3]))
    """
    if len(ids) == 0:
        return np.zeros(len(ticks), np.bool_), np.zeros(0, np.int64)
    different, ranks = np.unique(np.concatenate([ids, ticks]), return_inverse=True)
    width = len(different)
    opened = np.unique(of * width + ranks[: len(ids)])
    at = np.searchsorted(opened, parts * width + ranks[len(ids) :])
    found = opened[np.minimum(at, len(opened) - 1)]
    passed: Mask = (at < len(opened)) & (found // width == parts)
    return passed, different[found[passed] % width]


def _joined(before: _Tuples, given: _Tuples) -> _Tuples:
    batch = before[0].rename_columns(given[0].schema.names)  # saved under the names of another run
    return (
        pa.concat_batches([batch, given[0]]),
        np.concatenate([before[1], given[1]]),
        np.concatenate([before[2], given[2]]),
    )


def _some(tuples: _Tuples, which: Mask) -> _Tuples:
    batch, ticks, parts = tuples
    if which.all():
        return tuples
    return batch.filter(pa.array(which)), ticks[which], parts[which]


# State of slide-by-tuple windows by partition: tuples in the order of their values.


class Raw(NamedTuple):
    """A tuple of which no expression has been computed yet."""

    batch: pa.RecordBatch
    ticks: Ints


class LateBinTuple(NamedTuple):
    """A late tuple that still counts in windows: from its bound, which takes the place of its start
    bin, to before its end bin.  It is raw until there is such a window."""

    start: int
    end: int
    rows: Rows | Raw


class BinPartition(Partition):
    """The tuples of one partition that windows still to come may contain."""

    def __init__(
        self, folder: Folder, window: SlideByTuple, computed: Callable[[Raw], Rows]
    ) -> None:
        super().__init__(folder)
        self.window = window
        self._computed = computed  # by the codes that keys have in the stream
        self.extents = Extents(folder)
        self.ticks: Ints = np.zeros(0, np.int64)  # of the rows in `extents`
        self.stragglers: list[LateBinTuple] = []

    @property
    def empty(self) -> bool:
        return not len(self.ticks) and not self.stragglers

    def append(self, rows: Rows) -> None:
        self.extents.append(rows)
        self.ticks = np.concatenate([self.ticks, rows.positions])

    def mark(self, live: Mask) -> None:
        self.extents.mark(live)
        for late in self.stragglers:
            if isinstance(late.rows, Rows):
                live[late.rows.codes] = True

    def renumber(self, codes: Codes, place: Codes) -> None:
        self.extents.renumber(codes, place)
        self.stragglers = [
            late._replace(rows=replace(late.rows, codes=place[late.rows.codes]))
            if isinstance(late.rows, Rows)
            else late
            for late in self.stragglers
        ]

    def windows(self, opened: Ints) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """The groups of windows, as often as each was opened."""
        ids, times = np.unique(opened, return_counts=True)
        below = floor_div(ids, plus=-self.window.range, by=1)
        first = self.extents.first
        begins = first + np.searchsorted(self.ticks, below, side="right")
        ends = first + np.searchsorted(self.ticks, ids, side="right")
        extra = []
        for number, late in enumerate(self.stragglers):
            i, j = np.searchsorted(ids, [late.start, late.end]).tolist()
            if i < j:
                rows = late.rows
                if isinstance(rows, Raw):
                    rows = localized(self.folder, self._computed(rows))
                    self.stragglers[number] = late._replace(rows=rows)
                extra.append((i, j, rows))
        for which, columns in self.extents.of(begins, ends, extra):
            if (times[which] == 1).all():
                yield ids[which], columns
            else:
                repeated = _again(which, times[which])
                again = [column.take(pa.array(repeated)) for column in columns]
                yield ids[which[repeated]], again

    def forget(self, bound: Bound) -> None:
        """Drop what no window at or above the bound contains."""
        gone = len(self.ticks)
        if bound != END:
            gone = int(np.searchsorted(self.ticks, int(bound) - self.window.range, side="right"))
        if gone:
            self.extents.drop(self.extents.first + gone)
            self.ticks = self.ticks[gone:]
        if self.stragglers:
            self.stragglers = [late for late in self.stragglers if late.end > bound]


def _again(which: Ints, times: Ints) -> Ints:
    """Places of rows, those of each window as often as it was opened, one opening after the other.

    >>> _again(np.array([4, 4, 5]), np.array([2, 2, 1])).tolist()
    [0, 1, 0, 1, 2]
    """
    places = np.repeat(np.arange(len(which)), times)
    opening = np.arange(len(places)) - np.repeat(np.cumsum(times) - times, times)
    return places[np.lexsort((places, opening, which[places]))]


def late_piece(part: int, start: int, end: int, rows: Rows | Raw) -> tuple[Tree, Bound]:
    own = {"rows": rows.save()} if isinstance(rows, Rows) else {"raw": list(rows)}
    return {"part": part, "start": start, "end": end, **own}, end


def by_part(parts: Ints, ticks: Ints) -> Iterator[tuple[int, Ints]]:
    if len(parts):
        order = stable_order(parts)
        different, starts = np.unique(parts[order], return_index=True)
        yield from zip(different.tolist(), np.split(ticks[order], starts[1:]), strict=True)


# Slide-by-tuple windows: every n-th tuple opens one that reaches RANGE ticks back from it.
#
# Figure 6-7 of the thesis keeps a start bin and an end bin per tuple: where its window begins to
# contain it, and from where on no window does.  Between two neighbouring bins all windows contain
# the same tuples, and those are neighbours by value.  So once a bound has settled the order by
# value, a window is the stretch of tuples from the first whose end bin lies above it to the last
# whose start bin does not; tuples leave for good when the bound passes their end bin.

_Found: TypeAlias = tuple[int, Ints, list[pa.Array]]  # the partition of windows, ids, results
_OPENS = "_opens"  # a column of waiting tuples: whether they open a window


class SlideByTupleOperator(Base):
    """Slide-by-tuple windows: settle the order of tuples by the bound, and emit the windows that
    they open."""

    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, SlideByTuple)
        assert node.attribute is not None
        self.node = node
        self.window = node.window
        self.attribute_type = node.attribute.type
        self._id_type = node.schema.fields[0].type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self._in_time = InTime([node.attribute], node.input)
        self._waiting = Waiting()
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.partitions = Partitions(node)
        self.states: dict[int, BinPartition] = {}
        self._looked = 0  # how often progress came since partitions were looked through
        self.high: Bound = BEGINNING  # the highest window that has been released
        self._passed: Bound = BEGINNING  # the bound up to which windows have been released
        self._log = AppendLog("rows")  # rows that partitions have got
        self._dead = DeadKeys(self.folder)
        self._may_fail = may_fail(node)
        # if every tuple opens a window, it is in that one at least
        waits = self._may_fail and self.window.every > 1
        self._undecided = Undecided(self.window.range) if waits else None

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if self.window.order is Order.RANK:
            in_order, keys, late = self._in_time.split(batch, self._id_type)
            self._waiting.add(in_order, keys[0])
            yield from late
            return
        given = batch.rows
        ticks = to_ticks(self._attribute(given), self.attribute_type)
        given = given.append_column(_OPENS, pa.array(self._opens(given)))  # late tuples count, too
        if batch.broken is not None:
            rows, bounds = self._bound.broken(batch)
            late_ones = ticks[rows] < bounds
            rows, bounds = rows[late_ones], bounds[late_ones]
            if len(rows):
                missed = self._split_late(given.take(pa.array(rows)), rows, ticks[rows], bounds)
                yield missed.late_rows(batch.rows, self.attribute_type, self._id_type)
                in_time = np.ones(len(ticks), np.bool_)
                in_time[rows] = False
                given, ticks = given.filter(pa.array(in_time)), ticks[in_time]
        self._waiting.add(given, ticks)

    def _opens(self, batch: pa.RecordBatch) -> Mask:
        _, numbers = self.partitions.number(batch)
        opens: Mask = numbers % self.window.every == 0
        return opens

    def _split_late(self, late: pa.RecordBatch, places: Ints, ticks: Ints, bounds: Ints) -> Missed:
        """Late tuples open no window, and count in those that were not complete before them."""
        _, ends = self.window.wid_bounds(ticks)
        counting = np.flatnonzero(bounds < ends)
        late = late.take(pa.array(counting))
        parts = self.partitions.codes(late)
        rows = None if self._may_fail else self.folder.rows(late, ticks[counting])
        for number, row in enumerate(counting.tolist()):
            part, start, end = int(parts[number]), int(bounds[row]), int(ends[row])
            own: Rows | Raw
            if rows is None:
                own = Raw(late.slice(number, 1), ticks[row : row + 1])
            else:
                own = rows.take(np.array([number]))
            self._count_late(part, start, end, own)
            self._log.append(*late_piece(part, start, end, own))
        return Missed(places, bounds, ticks, np.minimum(bounds, ends) - 1)

    def _count_late(self, part: int, start: int, end: int, rows: Rows | Raw) -> None:
        state = self._state(part)
        own = localized(state.folder, rows) if isinstance(rows, Rows) else rows
        state.stragglers.append(LateBinTuple(start, end, own))

    def _computed(self, raw: Raw) -> Rows:
        return self.folder.rows(*raw)

    def _state(self, part: int) -> BinPartition:
        state = self.states.get(part)
        if state is None:
            folder = local_folder(self.folder) if self.window.partitioned else self.folder
            state = self.states[part] = BinPartition(folder, self.window, self._computed)
        return state

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        """Release the windows of tuples below the bound, and drop what lies RANGE below it."""
        bound = self._bound.promised(progress)
        settled = self._waiting.below(bound)
        if settled is not None:
            found = list(self._settle(*settled, bound))
            if found:
                self.high = max(self.high, *(int(ids.max()) for _, ids, _ in found))
                batch = windows_batch(self.node, [(ids, columns) for _, ids, columns in found])
                several = len(found) > 1
                yield Batch(batch.take(pa.array(self._leaving(found))) if several else batch)
        self._passed = bound
        self._log.pass_(bound)
        self._forget(bound)
        yield self._promise(bound, progress.ended)

    def _forget(self, bound: Bound) -> None:
        """Look through all partitions, but only as often as it costs little for each tuple."""
        self._looked += 1
        if self._looked >= len(self.states) and bound != BEGINNING:
            self._looked = 0
            for state in self.states.values():
                state.forget(bound)
                state.forget_keys()
            self.states = {part: state for part, state in self.states.items() if not state.empty}
            self._dead.forget(self._mark, self._renumber)

    def _leaving(self, found: list[_Found]) -> Ints:
        """Order in which windows leave: by id, those of several partitions by the values of the
        partitions."""
        ids = np.concatenate([ids for _, ids, _ in found])
        parts = np.concatenate([np.full(len(ids), part) for part, ids, _ in found])
        by_part = self.partitions.order_of(parts)
        order: Ints = by_part[stable_order(ids[by_part])]
        return order

    def _settle(self, batch: pa.RecordBatch, ticks: Ints, bound: Bound) -> Iterator[_Found]:
        """Add tuples in the order of their values, and emit the windows that they open."""
        if self.window.order is Order.RANK:
            opens = self._opens(batch)
        else:
            opens = np.asarray(batch.column(batch.num_columns - 1))
        parts = self.partitions.codes(batch)
        opened = dict(by_part(parts[opens], ticks[opens]))
        if self._undecided is not None:
            batch, ticks, parts = self._undecided.decide((batch, ticks, parts), opens, bound)
            if len(ticks) == 0:
                return
        rows = self.folder.rows(batch, ticks)
        self._log.append(*self._piece(rows, parts))
        for part, own in runs_of(rows, parts):
            state = self._state(part)
            state.append(localized(state.folder, own))
            if part in opened:
                for ids, columns in state.windows(opened[part]):
                    yield part, ids, columns

    def _promise(self, bound: Bound, ended: bool) -> Progress:
        if self.node.partition:
            return Progress(ended=ended)
        high = {} if self.high == BEGINNING else self._bounds(int(self.high))
        if ended or bound == BEGINNING:
            return Progress({}, high, ended)
        return Progress(self._bounds(int(bound)), high)

    def _bounds(self, wid: int) -> dict[str, Bound]:
        start, end = self.window.bounds(wid)
        return {"window_id": wid, "window_start": start, "window_end": end}

    def rows_held(self) -> int:
        return self._waiting.rows

    def open_results(self) -> OpenResults:
        """Tuples that wait: they open windows when the bound has passed them.  Other kept tuples
        are for windows that have not been opened yet."""
        return OpenResults(others=self._waiting.rows)

    # --- state -----------------------------------------------------------------------------------

    def _mark(self, live: Mask) -> None:
        for state in self.states.values():
            state.mark_known(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        for state in self.states.values():
            state.renumber_known(codes, place)
        self._log.begin_anew()

    def _piece(self, rows: Rows, parts: Codes) -> tuple[Tree, Bound]:
        """Rows are needed until the bound has passed the last window that contains them."""
        until = int(rows.positions.max()) + self.window.range
        return {"parts": parts, "rows": rows.save()}, until

    def _pieces(self) -> Iterator[tuple[Tree, Bound]]:
        for part, state in self.states.items():
            rows = state.extents.rows
            if rows is not None:
                yield self._piece(known(state.folder, rows), np.full(len(rows), part))
            for start, end, late in state.stragglers:
                own = known(state.folder, late) if isinstance(late, Rows) else late
                yield late_piece(part, start, end, own)

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self.partitions.save(store)
        self._waiting.save(store)
        self._log.save(store, self._pieces)
        if self._undecided is not None:
            self._undecided.save(store)
        store.put("run", {"high": self.high, "passed": self._passed})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self.partitions.load(store)
        self._waiting.load(store)
        self.high, self._passed = saved["high"], saved["passed"]
        if self._undecided is not None:
            self._undecided.load(store)
        for piece in self._log.load(store):
            if "part" in piece:
                if piece["end"] > self._passed:
                    own = Raw(*piece["raw"]) if "raw" in piece else Rows.load(piece["rows"])
                    self._count_late(piece["part"], piece["start"], piece["end"], own)
                continue
            rows = Rows.load(piece["rows"])
            for part, own in runs_of(rows, piece["parts"]):
                own = own.take(np.flatnonzero(own.positions > self._passed - self.window.range))
                if len(own):
                    state = self._state(part)
                    state.append(localized(state.folder, own))
