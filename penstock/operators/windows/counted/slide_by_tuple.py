"""Slide-by-tuple windows: every n-th tuple opens one that reaches RANGE ticks back from it.

Figure 6-7 of the thesis keeps a start bin and an end bin per tuple: where its window begins to
contain it, and from where on no window does.  Between two neighbouring bins all windows contain the
same tuples, and those are neighbours by value.  So once a bound has settled the order by value, a
window is the stretch of tuples from the first whose end bin lies above it to the last whose start
bin does not; tuples leave for good when the bound passes their end bin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.folding.folder import Folder, Rows
from penstock.operators.folding.key_expiry import DeadKeys
from penstock.operators.groups.grouped import InTime
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.ticks import to_ticks
from penstock.operators.windows.counted.partitions import (
    Partitions,
    Waiting,
    known,
    local_folder,
    localized,
)
from penstock.operators.windows.counted.rows import windows_batch
from penstock.operators.windows.counted.slide_by_tuple_partitions import (
    BinPartition,
    LateBinTuple,
    Raw,
    by_part,
    late_piece,
)
from penstock.operators.windows.counted.undecided import Undecided, may_fail
from penstock.operators.windows.landmark import runs_of
from penstock.operators.windows.results import Missed
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.append_log import AppendLog
from penstock.state.chunks import ChunkStore, Tree
from penstock.windows.rows import Order
from penstock.windows.slide_by_tuple import SlideByTuple

_Found: TypeAlias = tuple[int, Ints, list[pa.Array]]  # the partition of windows, ids, results
_OPENS = "_opens"  # a column of waiting tuples: whether they open a window


class SlideByTupleOperator(Base):
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
        self._log = AppendLog("rows")  # what partitions have taken in
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
                missed = self._set_late_aside(given.take(pa.array(rows)), rows, ticks[rows], bounds)
                yield missed.late_rows(batch.rows, self.attribute_type, self._id_type)
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
        """Release the windows of tuples below the bound, and forget what lies RANGE below it."""
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
        """How to put windows in order: one after the other, those of several partitions by what
        the partitions are called."""
        ids = np.concatenate([ids for _, ids, _ in found])
        parts = np.concatenate([np.full(len(ids), part) for part, ids, _ in found])
        by_part = self.partitions.order_of(parts)
        order: Ints = by_part[stable_order(ids[by_part])]
        return order

    def _settle(self, batch: pa.RecordBatch, ticks: Ints, bound: Bound) -> Iterator[_Found]:
        """Take in tuples in the order of their values, and give the windows that they open."""
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
        """Tuples that wait: they open windows when the bound has passed them.  Those that are kept
        are for windows that nobody has opened yet."""
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
