"""OVER where the order begins with time: rows leave one after the other, as the bound passes them.

What frames hold that begin with the partition is carried along; other frames look at rows that are
kept for as long as somebody may look back at them.  Rows that look ahead wait (`rows_ahead.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.schema import Schema
from penstock.operators.batch import Batch
from penstock.operators.groups.grouped import as_batch
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Item, Progress, at_once
from penstock.operators.over.calls import CallOverRows, call_over_rows
from penstock.operators.over.carried import Carried, CarriedNumber, carried_call
from penstock.operators.over.carried_call import CarriedCall
from penstock.operators.over.first_of_each import FirstOfEach
from penstock.operators.over.frame_bounds import RowsInPartitions
from penstock.operators.over.history import History, HistoryRows, joined
from penstock.operators.over.partitioned import Partitioned
from penstock.operators.waiting import InTurn
from penstock.physical.asked import Asked
from penstock.plan.expressions import columns_of
from penstock.plan.nodes.over import Over
from penstock.plan.nodes.over_calls import NamedOver, Numbering, NumberKind
from penstock.state.chunks import ChunkStore


class RowsInTime(Partitioned):
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
        """The calls that look at rows; the others are carried."""
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
        """Rows that the bound has passed, in the order of their times, with what is asked."""
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
    """Whether one row of every partition comes, and nothing else is asked."""
    if node.most != (0, 1) or len(node.calls) != 1 or node.bare or node.skip:
        return False
    call = node.calls[0].call
    return isinstance(call, Numbering) and call.kind is NumberKind.ROW_NUMBER


def _columns_of_calls(calls: tuple[NamedOver, ...], schema: Schema) -> list[int]:
    """The places of the columns that calls look at; one at least, for rows to be counted by."""
    expressions = [each for call in calls for each in call.call.expressions]
    found = {column.position(schema) for each in expressions for column in columns_of(each)}
    return sorted(found) or [0]
