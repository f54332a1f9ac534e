"""OVER in the order of time where rows look ahead (lead, FOLLOWING): a row waits until all are
known that it looks at.

By time that is when the bound has passed them, by number when so many rows of the partition have
come behind it, or the stream has ended.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch
from penstock.operators.groups.grouped import as_batch
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Item, Progress, at_once
from penstock.operators.over.calls import call_over_rows
from penstock.operators.over.frame_bounds import RowsInPartitions, stretches
from penstock.operators.over.history import HistoryRows, joined
from penstock.operators.over.partitioned import Partitioned
from penstock.operators.waiting import InTurn
from penstock.physical.asked import Asked
from penstock.plan.nodes.over import Over
from penstock.state.chunks import ChunkStore


class RowsAhead(Partitioned):
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
        """The rows that have come to know all that they look at, in the order of their times."""
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
        """Which rows know all that they look at."""
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
        """Rows that wait, and those that they or later ones look back at."""
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
