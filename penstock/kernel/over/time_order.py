"""OVER in the order of time: rows leave as the bound passes them, or wait for the rows that they
look ahead to; earlier rows are kept for as long as frames may hold them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.groups.group_by import as_batch
from penstock.kernel.joins.join_side import spread
from penstock.kernel.operator import Item, OpenResults, Progress, at_once
from penstock.kernel.order import InTurn
from penstock.kernel.over.frame_state import Carried, CarriedCall, CarriedNumber, carried_call
from penstock.kernel.over.frames import CallOverRows, RowsInPartitions, call_over_rows, stretches
from penstock.kernel.over.partitions import Partitioned
from penstock.kernel.over.row_order import FirstOfEach
from penstock.kernel.state import AppendLog, ChunkStore, Tree
from penstock.model.arrays import Codes, Ints, Mask, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import Schema
from penstock.plan.expressions import columns_of
from penstock.plan.nodes.over import NamedOver, Numbering, NumberKind, Over
from penstock.plan.physical import Asked

_FEW = 8  # runs that are left as they are, however long


# Rows that later rows of their partition may look back at.
#
# They are kept in runs that are sorted by partition, each behind the one before it in time.  A run
# is as long as all shorter ones behind it together, so a row is moved only now and then; rows that
# no frame can hold any more are dropped when runs are merged.


class HistoryRows(NamedTuple):
    """Rows by partition, and in their order there."""

    rows: pa.RecordBatch
    codes: Ints
    ticks: Ints
    peers: Ints

    def take(self, places: Ints) -> HistoryRows:
        rows = self.rows.take(pa.array(places))
        return HistoryRows(rows, self.codes[places], self.ticks[places], self.peers[places])


class History:
    """Rows kept for later rows of their partition.

    The last `rows` rows of every partition, its last `groups` of equal rows, and all that are no
    more than `ticks` below the bound (None: none because of their time).
    """

    def __init__(self, rows: int, ticks: int | None, groups: int = 0) -> None:
        self._rows, self._ticks, self._groups = rows, ticks, groups
        self._counts = bool(rows or groups)  # whether some are kept whatever their time is
        self._runs: list[HistoryRows] = []
        self._log = AppendLog("history")
        self._bound: Bound = BEGINNING

    def __len__(self) -> int:
        return sum(len(run.codes) for run in self._runs)

    def of(self, codes: Ints) -> list[HistoryRows]:
        """The rows of some partitions, whose codes ascend: the earlier ones first."""
        found = []
        for run in self._runs:
            low = np.searchsorted(run.codes, codes, side="left")
            sizes = np.searchsorted(run.codes, codes, side="right") - low
            total = int(sizes.sum())
            if total == len(run.codes):
                found.append(run)
            elif total:
                found.append(run.take(spread(low, sizes, total)))
        return found

    def add(self, new: HistoryRows, bound: Bound) -> None:
        """Add rows that all others stand before, and the bound that they are below."""
        self._bound = bound
        lowest = self._lowest()
        if not self._counts:
            self._runs = [run for run in self._runs if int(run.ticks.max()) >= lowest]
            self._log.pass_(lowest)
        new = self._needed(new)
        if len(new.codes):
            self._log.append(*self._piece(new))
            self._push(new)

    def _push(self, new: HistoryRows) -> None:
        self._runs.append(new)
        while len(self._runs) > _FEW and len(self._runs[-2].codes) <= 2 * len(self._runs[-1].codes):
            merged = self._needed(joined(self._runs[-2:]))
            self._runs[-2:] = [merged] if len(merged.codes) else []

    def _needed(self, kept: HistoryRows) -> HistoryRows:
        """Rows that a later row may look at, regardless of the rows that follow."""
        needed = self._by_number(kept)
        lowest = self._lowest()
        if lowest == BEGINNING:
            needed[:] = True
        elif lowest != END:
            needed |= kept.ticks >= int(lowest)
        return kept if needed.all() else kept.take(np.flatnonzero(needed))

    def _by_number(self, kept: HistoryRows) -> Mask:
        if not len(kept.codes):
            return np.zeros(0, np.bool_)
        numbers, _, stops = stretches(kept.codes)
        needed: Mask = stops[numbers] - np.arange(len(kept.codes)) <= self._rows
        if self._groups:
            groups, *_ = stretches(kept.peers)
            needed |= groups[stops - 1][numbers] - groups < self._groups
        return needed

    def _lowest(self) -> Bound:
        """Lowest tick from which rows are kept for their time."""
        if self._ticks is None:
            return END
        return self._bound if self._bound in (BEGINNING, END) else self._bound - self._ticks

    def _piece(self, kept: HistoryRows) -> tuple[Tree, Bound]:
        until: Bound = END
        if not self._counts and self._ticks is not None:
            until = int(kept.ticks.max()) + 1
        arrays = {"codes": kept.codes, "ticks": kept.ticks, "peers": kept.peers}
        return {"rows": kept.rows, **arrays}, until

    def _pieces(self) -> Iterator[tuple[Tree, Bound]]:
        yield from map(self._piece, self._runs)

    def save(self, store: ChunkStore) -> None:
        if len(self._runs) > 1 and self._counts:  # what is written would only grow
            self._runs = [self._needed(joined(self._runs))]
            self._log.begin_anew()
        self._log.save(store, self._pieces)
        store.put("history bound", self._bound)

    def load(self, store: ChunkStore, names: list[str]) -> None:
        """The columns are the same, but may be called something else by now."""
        bound = store.get("history bound")
        if bound is None:
            return
        self._bound = bound
        for piece in self._log.load(store):
            rows = piece["rows"].rename_columns(names)
            self._push(HistoryRows(rows, piece["codes"], piece["ticks"], piece["peers"]))


def joined(several: list[HistoryRows]) -> HistoryRows:
    """Rows of several, by partition; in each, in the order in which they are given."""
    if len(several) == 1:
        return several[0]
    names = several[-1].rows.schema.names
    rows = pa.concat_batches([each.rows.rename_columns(names) for each in several])
    codes, ticks, peers = (
        np.concatenate(each) for each in zip(*(each[1:] for each in several), strict=True)
    )
    whole = HistoryRows(rows, codes, ticks, peers)
    if (codes[1:] >= codes[:-1]).all():
        return whole
    return whole.take(stable_order(codes))


# OVER in the order of time where rows look ahead (lead, FOLLOWING): a row waits until all rows are
# known that it looks at.
#
# By time that is when the bound has passed them, by number when so many rows of the partition have
# come behind it, or the stream has ended.


class RowsAhead(Partitioned):
    """OVER whose calls look ahead: emit rows when all rows that they look at are known."""

    def __init__(self, node: Over, asked: Asked | None) -> None:
        super().__init__(node, asked)
        given = node.input.schema
        self._calls = [call_over_rows(each.call, given) for each in node.calls]
        nothing = np.zeros(0, np.int64)
        self._kept = HistoryRows(_no_rows(given.arrow), nothing, nothing, nothing)
        self._passed: Bound = BEGINNING

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound, *_ = self._in_time.final(progress)
        if bound > self._passed:
            taken = self._waiting.take(bound if bound == END else bound - 1)
            if taken is not None or self._node.ticks_ahead or bound == END:
                answered = self._answered(taken, bound)
                if answered is not None:
                    yield Batch(answered)
            self._passed = bound
        still = self._kept.ticks[~self._closed(self._kept, self._passed)]
        bound = min(self._passed, int(still.min())) if len(still) else self._passed
        yield self._promises.progress(progress, bound)

    def _answered(self, taken: InTurn | None, bound: Bound) -> pa.RecordBatch | None:
        """The rows whose looked-at rows are all known by now, in the order of their times."""
        before = self._kept
        left = self._closed(before, self._passed)
        whole = before
        if taken is not None:
            new = self._sorted(taken)
            whole = joined([before, new])
            places = np.searchsorted(new.codes, before.codes, side="left")
            left = _spread(left, np.arange(len(left)) + places, len(whole.codes))
        closed = self._closed(whole, bound)
        targets = np.flatnonzero(closed & ~left)
        self._keep(whole, closed, bound)
        if not len(targets):
            return None
        targets = targets[stable_order(whole.ticks[targets])]
        given = RowsInPartitions(whole.rows, whole.codes, whole.peers, whole.ticks)
        columns = [call.of(given, targets) for call in self._calls]
        rows = whole.rows.take(pa.array(targets))
        self._promises.leave(rows)
        return as_batch([*rows.columns, *columns], self._schema)

    def _sorted(self, taken: InTurn) -> HistoryRows:
        rows, ticks = taken
        codes = self._codes(rows)
        places, peers = self._sort(rows, codes, ticks)
        return HistoryRows(rows.take(pa.array(places)), codes[places], ticks[places], peers)

    def _closed(self, kept: HistoryRows, bound: Bound) -> Mask:
        """Mask of the rows whose looked-at rows are all known."""
        size = len(kept.codes)
        if bound in (END, BEGINNING) or not size:
            return np.full(size, bound == END)
        numbers, _, stops = stretches(kept.codes)
        behind = stops[numbers] - 1 - np.arange(size)
        closed: Mask = behind >= self._node.rows_ahead
        if self._node.groups_ahead:
            groups, *_ = stretches(kept.peers)
            closed &= groups[stops - 1][numbers] - groups >= self._node.groups_ahead
        return closed & (kept.ticks < int(bound) - self._node.ticks_ahead)

    def _keep(self, whole: HistoryRows, closed: Mask, bound: Bound) -> None:
        """Keep the rows that wait, and those that they or later ones look back at."""
        size = len(whole.codes)
        if not size:
            return
        if bound == END:
            self._kept = whole.take(np.zeros(0, np.int64))
            return
        numbers, starts, stops = stretches(whole.codes)
        places = np.where(closed, stops[numbers], np.arange(size))
        first = np.minimum.reduceat(places, starts)[numbers]  # that waits, or comes next
        needed = np.arange(size) >= first - self._node.rows_back
        if self._node.ticks_back:
            ticks = np.where(closed, int(bound), whole.ticks)
            lowest = np.minimum.reduceat(ticks, starts)[numbers]
            needed |= whole.ticks >= lowest - self._node.ticks_back
        if self._node.groups_back:
            groups, *_ = stretches(whole.peers)
            behind = first == stops[numbers]  # the next group is none of these
            own = groups[np.minimum(first, size - 1)]
            own = np.where(behind, groups[stops - 1][numbers] + 1, own)
            needed |= groups >= own - self._node.groups_back
        self._kept = whole if needed.all() else whole.take(np.flatnonzero(needed))

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return len(self._waiting) + len(self._kept.codes)

    def open_results(self) -> OpenResults:
        waiting = np.count_nonzero(~self._closed(self._kept, self._passed))
        return OpenResults(others=len(self._waiting) + int(waiting))

    def save(self, store: ChunkStore) -> None:
        self._save(store, passed=self._passed, kept=list(self._kept))

    def load(self, store: ChunkStore) -> None:
        saved = self._load(store)
        if saved is None:
            return
        self._passed = saved["passed"]
        rows, *arrays = saved["kept"]
        self._kept = HistoryRows(rows.rename_columns(self._names), *arrays)


def _spread(values: Mask, places: Ints, size: int) -> Mask:
    spread = np.zeros(size, np.bool_)
    spread[places] = values
    return spread


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)


# OVER where the order begins with time: rows leave one after the other, as the bound passes them.
#
# Frames that begin with the partition are carried along; other frames look at rows that are kept
# for as long as a later row may look back at them.  Rows that look ahead wait (`RowsAhead`).


class RowsInTime(Partitioned):
    """OVER whose calls look at earlier rows only: emit rows as the bound passes them."""

    def __init__(self, node: Over, asked: Asked | None) -> None:
        super().__init__(node, asked)
        given = node.input.schema
        self._carried_calls: dict[int, CarriedCall] = {}
        self._framed: dict[int, CallOverRows] = {}
        framed = self._divide(node.calls, given)
        self._kept = _columns_of_calls(framed, given)
        kept = Schema(tuple(given.fields[place] for place in self._kept))
        self._framed = {
            place: call_over_rows(node.calls[place].call, kept)
            for place in range(len(node.calls))
            if place not in self._carried_calls
        }
        self._carried = Carried(list(self._carried_calls.values()))
        self._first = FirstOfEach(self._order) if _once(node) else None
        self._history = History(node.rows_back, node.ticks_back or None, node.groups_back)

    def _divide(self, calls: tuple[NamedOver, ...], schema: Schema) -> tuple[NamedOver, ...]:
        """Calls that look at other rows; the others are carried."""
        framed = []
        for place, each in enumerate(calls):
            carried = carried_call(each.call, schema)
            if carried is None:
                framed.append(each)
            else:
                self._carried_calls[place] = carried
        return tuple(framed)

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound, *_ = self._in_time.final(progress)
        if bound != BEGINNING:
            taken = self._waiting.take(bound if bound == END else bound - 1)
            if taken is not None:
                answered = self._answered(taken, bound)
                self._promises.leave(answered)
                yield Batch(answered)
        yield self._promises.progress(progress, bound)

    def _answered(self, taken: InTurn, bound: Bound) -> pa.RecordBatch:
        """The rows that the bound has passed, in the order of their times, with the values of the
        calls."""
        rows, ticks = taken
        codes = self._codes(rows)
        if self._first is not None:
            return self._once(self._first, taken, codes)
        places, peers = self._sort(rows, codes, ticks)
        turned = pa.array(places)
        new = RowsInPartitions(rows, codes[places], peers)
        if self._carried_calls:
            new.rows = rows.take(turned)
        carried = self._carried.of(new, max(1, len(self._keys)))
        made = dict(zip(self._carried_calls, carried, strict=True))
        if self._framed:
            own = HistoryRows(rows.select(self._kept).take(turned), new.codes, ticks[places], peers)
            made |= self._over_frames(own, new.starts, bound)
        back = np.empty(len(places), np.int64)
        back[places] = np.arange(len(places))
        columns = [made[place].take(pa.array(back)) for place in range(len(made))]
        batch = as_batch([*rows.columns, *columns], self._schema)
        return self._within_limit(batch, columns)

    def _once(self, first: FirstOfEach, taken: InTurn, codes: Codes) -> pa.RecordBatch:
        """The first rows of partitions that had none."""
        number = self._carried_calls[0]
        assert isinstance(number, CarriedNumber)
        unseen = number.unseen(codes, len(self._keys))
        rows, ticks = taken
        if len(unseen) < len(codes):
            rows, ticks, codes = rows.take(pa.array(unseen)), ticks[unseen], codes[unseen]
        places = first.of(rows, codes, ticks)
        codes = codes[places]
        number.count_one(codes)
        self._carried.touch(codes)
        chosen = rows.take(pa.array(places))
        return as_batch([*chosen.columns, pa.array(np.ones(len(places), np.int64))], self._schema)

    def _over_frames(self, own: HistoryRows, starts: Ints, bound: Bound) -> dict[int, pa.Array]:
        before = self._history.of(own.codes[starts])
        whole, targets = own, np.arange(len(own.codes))
        if before:
            old = joined(before)
            # rows of a partition stand behind those that were kept of it
            targets = targets + np.searchsorted(old.codes, own.codes, side="right")
            whole = joined([old, own])
        given = RowsInPartitions(whole.rows, whole.codes, whole.peers, whole.ticks)
        made = {place: call.of(given, targets) for place, call in self._framed.items()}
        self._history.add(own, bound)
        return made

    def _within_limit(self, batch: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
        if self._node.most is None:
            return batch
        place, limit = self._node.most
        return batch.filter(pa.array(np.asarray(columns[place]) <= limit))

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return len(self._waiting) + len(self._history)

    def open_results(self) -> OpenResults:
        return OpenResults(others=len(self._waiting))

    def save(self, store: ChunkStore) -> None:
        self._save(store)
        self._carried.save(store, len(self._keys))
        self._history.save(store)

    def load(self, store: ChunkStore) -> None:
        if self._load(store) is None:
            return
        self._carried.load(store, len(self._keys))
        self._history.load(store, [self._names[place] for place in self._kept])


def _once(node: Over) -> bool:
    """Whether the node asks for one row of every partition, and nothing else."""
    if node.most != (0, 1) or len(node.calls) != 1 or node.bare or node.skip:
        return False
    call = node.calls[0].call
    return isinstance(call, Numbering) and call.kind is NumberKind.ROW_NUMBER


def _columns_of_calls(calls: tuple[NamedOver, ...], schema: Schema) -> list[int]:
    """The places of the columns that calls look at; one at least, for rows to be counted by."""
    expressions = [each for call in calls for each in call.call.expressions]
    found = {column.position(schema) for each in expressions for column in columns_of(each)}
    return sorted(found) or [0]
