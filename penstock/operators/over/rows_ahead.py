"""OVER in the order of time where rows look ahead (lead, FOLLOWING): a row waits until all are
known that it looks at.

By time that is when the bound has passed them, by number when so many rows of the partition have
come behind it, or the stream has ended.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.groups.grouped import as_batch
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.over.calls import call_over_rows
from penstock.operators.over.frame_bounds import RowsInPartitions, stretches
from penstock.operators.over.history import HistoryRows, joined
from penstock.operators.over.promises import Promises
from penstock.operators.over.row_order import RowOrder
from penstock.operators.revising.amendment import in_time_of
from penstock.operators.waiting import InTurn, WaitingRows
from penstock.physical.asked import Asked
from penstock.plan.nodes.over import Over
from penstock.state.chunks import ChunkStore


class RowsAhead(Base):
    def __init__(self, node: Over, asked: Asked | None) -> None:
        given = node.input.schema
        self._node = node
        self._schema = node.schema.arrow
        self._names = given.arrow.names
        self._in_time = in_time_of(list(node.times), node.input, asked)
        self._promises = Promises(node, asked)
        self._waiting = WaitingRows()
        self._partition = [compile_expression(each, given) for each in node.partition]
        self._keys = KeyCodes([each.type for each in node.partition])
        self._order = RowOrder(node, given)
        self._calls = [call_over_rows(each.call, given) for each in node.calls]
        self._peers = 0  # how many kinds of rows there have been
        nothing = np.zeros(0, np.int64)
        self._kept = HistoryRows(_no_rows(given.arrow), nothing, nothing, nothing)
        self._passed: Bound = BEGINNING

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        rows, ticks, late = self._in_time.split(batch)
        yield from late
        self._promises.wait(rows, ticks[0])
        self._waiting.add(rows, ticks[0])

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
        codes = self._keys.encode([column(rows) for column in self._partition], len(ticks))
        order = self._order.sort(rows, codes, ticks)
        peers = order.peers + self._peers
        self._peers = int(peers[-1]) + 1
        places = order.places
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
        self._keys.save(store)
        self._waiting.save(store)
        run = {"peers": self._peers, "passed": self._passed, "kept": list(self._kept)}
        store.put("run", {**run, "promises": self._promises.save()})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._peers, self._passed = saved["peers"], saved["passed"]
        self._promises.load(saved["promises"])
        self._keys.load(store)
        self._waiting.load(store, self._names)
        rows, *arrays = saved["kept"]
        self._kept = HistoryRows(rows.rename_columns(self._names), *arrays)


def _spread(values: Mask, places: Ints, size: int) -> Mask:
    spread = np.zeros(size, np.bool_)
    spread[places] = values
    return spread


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)
