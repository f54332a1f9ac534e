"""Slide-by-tuple windows: every n-th tuple opens one that reaches RANGE ticks back from it.

Figure 6-7 of the thesis keeps a start bin and an end bin per tuple: where its window begins to
contain it, and from where on no window does.  Between two neighbouring bins all windows contain the
same tuples, and those are neighbours by value.  So once a bound has settled the order by value, a
window is the stretch of tuples from the first whose end bin lies above it to the last whose start
bin does not; tuples leave for good when the bound passes their end bin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.bounds import BoundOf, has_broken, without_bounds
from penstock.operators.exact_sums import Ints
from penstock.operators.extents import Extents
from penstock.operators.folding import Folder, Mask, Rows
from penstock.operators.grouped import InTime
from penstock.operators.landmark import runs_of
from penstock.operators.operator import Item, Progress
from penstock.operators.partitions import Partitions, Waiting, local_folder, localized
from penstock.operators.release import Missed
from penstock.operators.row_windows import windows_batch
from penstock.operators.ticks import to_ticks
from penstock.plan.aggregates import WindowAggregate
from penstock.windows.columns import floor_div
from penstock.windows.rows import Order
from penstock.windows.slide_by_tuple import SlideByTuple

_OPENS = "_opens"  # a column of waiting tuples: whether they open a window


class Straggler(NamedTuple):
    """A late tuple that still counts in windows: from its bound, which takes the place of its start
    bin, to before its end bin."""

    start: int
    end: int
    rows: Rows


class Bins:
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
        self.folder = Folder(node.keys, node.aggregates, node.input.schema)
        self.partitions = Partitions(node)
        self.states: dict[int, _Partition] = {}
        self._looked = 0  # how often progress came since partitions were looked through
        self.high: Bound = BEGINNING  # the highest window that has been released

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: pa.RecordBatch) -> Iterable[Item]:  # noqa: ARG002
        if self.window.order is Order.RANK:
            batch, keys, late = self._in_time.split(batch, self._id_type)
            self._waiting.add(batch, keys[0])
            yield from late
            return
        given = without_bounds(batch)
        ticks = to_ticks(self._attribute(given), self.attribute_type)
        given = given.append_column(_OPENS, pa.array(self._opens(given)))  # late tuples count, too
        if has_broken(batch):
            rows, bounds = self._bound.broken(batch)
            late_ones = ticks[rows] < bounds
            rows, bounds = rows[late_ones], bounds[late_ones]
            if len(rows):
                missed = self._set_late_aside(given.take(pa.array(rows)), rows, ticks[rows], bounds)
                yield missed.late_rows(batch, self.attribute_type, self._id_type)
                in_time = np.ones(len(ticks), np.bool_)
                in_time[rows] = False
                given, ticks = given.filter(pa.array(in_time)), ticks[in_time]
        self._waiting.add(given, ticks)

    def _opens(self, batch: pa.RecordBatch) -> Mask:
        _, numbers = self.partitions.number(batch)
        opens: Mask = numbers % self.window.every == 0
        return opens

    def _set_late_aside(
        self, late: pa.RecordBatch, places: Ints, ticks: Ints, bounds: Ints
    ) -> Missed:
        """Late tuples open no window, and count in those that were not complete before them."""
        _, ends = self.window.wid_bounds(ticks)
        parts = self.partitions.codes(late)
        rows = self.folder.rows(late, ticks)
        for row in np.flatnonzero(bounds < ends).tolist():
            state = self._state(int(parts[row]))
            own = localized(state.folder, rows.take(np.array([row])))
            state.stragglers.append(Straggler(int(bounds[row]), int(ends[row]), own))
        return Missed(places, bounds, ticks, np.minimum(bounds, ends) - 1)

    def _state(self, part: int) -> _Partition:
        state = self.states.get(part)
        if state is None:
            folder = local_folder(self.folder) if self.window.partitioned else self.folder
            state = self.states[part] = _Partition(folder, self.window)
        return state

    # --- progress --------------------------------------------------------------------------------

    def on_progress(self, port: int, progress: Progress) -> Iterable[Item]:  # noqa: ARG002
        """Release the windows of tuples below the bound, and forget what lies RANGE below it."""
        bound = self._bound.promised(progress)
        settled = self._waiting.below(bound)
        if settled is not None:
            found = list(self._settle(*settled))
            if found:
                self.high = max(self.high, *(int(ids.max()) for ids, _ in found))
                yield windows_batch(self.node, found)
        self._forget(bound)
        yield self._promise(bound, progress.ended)

    def _forget(self, bound: Bound) -> None:
        """Look through all partitions, but only as often as it costs little for each tuple."""
        self._looked += 1
        if self._looked >= len(self.states) and bound != BEGINNING:
            self._looked = 0
            for state in self.states.values():
                state.forget(bound)
            self.states = {part: state for part, state in self.states.items() if not state.empty}

    def _settle(self, batch: pa.RecordBatch, ticks: Ints) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """Take in tuples in the order of their values, and give the windows that they open."""
        if self.window.order is Order.RANK:
            opens = self._opens(batch)
        else:
            opens = np.asarray(batch.column(batch.num_columns - 1))
        parts = self.partitions.codes(batch)
        rows = self.folder.rows(batch, ticks)
        opened = dict(_by_part(parts[opens], ticks[opens]))
        for part, own in runs_of(rows, parts):
            state = self._state(part)
            state.append(localized(state.folder, own))
            if part in opened:
                yield from state.windows(opened[part])

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


class _Partition:
    """The tuples of one partition that windows still to come may contain."""

    def __init__(self, folder: Folder, window: SlideByTuple) -> None:
        self.folder = folder
        self.window = window
        self.extents = Extents(folder)
        self.ticks: Ints = np.zeros(0, np.int64)  # of the rows in `extents`
        self.stragglers: list[Straggler] = []

    @property
    def empty(self) -> bool:
        return not len(self.ticks) and not self.stragglers

    def append(self, rows: Rows) -> None:
        self.extents.append(rows)
        self.ticks = np.concatenate([self.ticks, rows.positions])

    def windows(self, opened: Ints) -> Iterator[tuple[Ints, list[pa.Array]]]:
        """The groups of windows, as often as each was opened."""
        ids, times = np.unique(opened, return_counts=True)
        below = floor_div(ids, plus=-self.window.range, by=1)
        first = self.extents.first
        begins = first + np.searchsorted(self.ticks, below, side="right")
        ends = first + np.searchsorted(self.ticks, ids, side="right")
        extra = []
        for late in self.stragglers:
            i, j = np.searchsorted(ids, [late.start, late.end]).tolist()
            extra.append((i, j, late.rows))
        for which, columns in self.extents.of(begins, ends, extra):
            if (times[which] == 1).all():
                yield ids[which], columns
            else:
                repeated = pa.array(np.repeat(np.arange(len(which)), times[which]))
                again = [column.take(repeated) for column in columns]
                yield np.repeat(ids[which], times[which]), again

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


def _by_part(parts: Ints, ticks: Ints) -> Iterator[tuple[int, Ints]]:
    if len(parts):
        order = np.argsort(parts, kind="stable")
        different, starts = np.unique(parts[order], return_index=True)
        yield from zip(different.tolist(), np.split(ticks[order], starts[1:]), strict=True)
