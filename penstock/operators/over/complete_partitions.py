"""OVER and LIMIT where a key of the partition progresses: rows wait until their partition is
complete, and are put in order then.

With a limit on their number, only those wait that may be among the first: now and then all others
go.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints, Mask
from penstock.model.punctuation import BEGINNING, END
from penstock.operators.batch import Batch
from penstock.operators.folding.key_order import sorted_places
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.groups.grouped import as_batch
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.over.calls import call_over_rows
from penstock.operators.over.frame_bounds import RowsInPartitions
from penstock.operators.over.promises import Promises
from penstock.operators.over.row_order import RowOrder
from penstock.operators.revising.amendment import in_time_of
from penstock.operators.ticks import to_ticks
from penstock.operators.waiting import InTurn, WaitingRows
from penstock.physical.asked import Asked
from penstock.plan.over import Over
from penstock.plan.over_calls import frames_of
from penstock.state.chunks import ChunkStore

_FEW = 4096  # rows that may wait before those go that are beyond the limit


class CompletePartitions(Base):
    def __init__(self, node: Over, asked: Asked | None) -> None:
        given = node.input.schema
        self._node = node
        self._schema = node.schema.arrow
        self._names = given.arrow.names
        self._in_time = in_time_of(list(node.times), node.input, asked)
        self._waiting = WaitingRows()
        self._types = [each.type for each in node.partition]
        self._partition = [compile_expression(each, given) for each in node.partition]
        self._calls = [call_over_rows(each.call, given) for each in node.calls]
        self._order = RowOrder(node, given)
        self._measured = any(frame.has_lengths for frame in frames_of(node.calls))
        self._times = [compile_expression(key.expression, given) for key in node.order[:1]]
        self._kept = 0  # rows, when those beyond the limit were last left out
        self._promises = Promises(node, asked)

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        rows, ticks, late = self._in_time.split(batch)
        yield from late
        if not rows.num_rows:
            return
        self._promises.wait(rows, ticks[0])
        self._waiting.add(rows, ticks[0])
        if self._node.most is not None and len(self._waiting) > max(_FEW, 2 * self._kept):
            self._reduce()

    def _reduce(self) -> None:
        """Leave only the rows that are within the limit among those that have come."""
        taken = self._waiting.take_all()
        if taken is None:
            return
        given, places = self._sorted(taken)
        kept = np.sort(places[self._within_limit(given)])
        self._waiting.add(taken.rows.take(pa.array(kept)), taken.ticks[kept])
        self._kept = len(kept)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound, *_ = self._in_time.final(progress)
        if bound != BEGINNING:
            taken = self._waiting.take(bound if bound == END else bound - 1)
            if taken is not None:
                yield Batch(self._answered(taken))
                self._kept = min(self._kept, len(self._waiting))
        yield self._promises.progress(progress, bound)

    def _answered(self, taken: InTurn) -> pa.RecordBatch:
        """The rows of complete partitions: by the key that has completed them, then by all keys,
        and in the order that was asked for."""
        given, places = self._sorted(taken)
        targets = np.arange(len(given))
        if self._node.most is not None:
            targets = np.flatnonzero(self._within_limit(given))
        made = [call.of(given, targets) for call in self._calls]
        keys = [column(given.rows) for column in self._partition]
        firsts = [each.take(pa.array(given.starts)) for each in keys]
        ranks = _ranks([pa.array(taken.ticks[places[given.starts]]), *firsts])
        order = np.argsort(ranks[given.numbers[targets]], kind="stable")
        rows = given.rows.take(pa.array(targets[order]))
        columns = [each.take(pa.array(order)) for each in made]
        self._promises.leave(rows)
        return as_batch([*rows.columns, *columns], self._schema)

    def _sorted(self, taken: InTurn) -> tuple[RowsInPartitions, Ints]:
        """Rows by partition and order, and which ones they are."""
        rows = taken.rows
        columns = [column(rows) for column in self._partition]
        codes = KeyCodes(self._types).encode(columns, rows.num_rows)
        order = self._order.sort(rows, codes)
        places = order.places
        sorted_rows = rows.take(pa.array(places))
        given = RowsInPartitions(sorted_rows, codes[places], order.peers)
        if self._measured:
            given.ticks, given.timed = self._ticks(sorted_rows)
            given.nulls_first = self._node.order[0].nulls_first
        return given, places

    def _ticks(self, rows: pa.RecordBatch) -> tuple[Ints, Mask | None]:
        column = self._times[0](rows)
        key = self._node.order[0].expression.type
        if not column.null_count:
            return to_ticks(column, key), None
        timed = np.asarray(column.is_valid())
        ticks = np.zeros(len(column), np.int64)
        ticks[timed] = to_ticks(column.drop_null(), key)
        return ticks, timed

    def _within_limit(self, given: RowsInPartitions) -> Mask:
        assert self._node.most is not None
        place, limit = self._node.most
        numbers = np.asarray(self._calls[place].of(given, np.arange(len(given))))
        within: Mask = numbers <= limit
        return within

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return len(self._waiting)

    def open_results(self) -> OpenResults:
        return OpenResults(others=len(self._waiting))

    def save(self, store: ChunkStore) -> None:
        self._waiting.save(store)
        store.put("run", {"kept": self._kept, "promises": self._promises.save()})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._kept = saved["kept"]
        self._waiting.load(store, self._names)
        self._promises.load(saved["promises"])


def _ranks(columns: list[pa.Array]) -> Ints:
    """The place of each row in the order of some columns."""
    order = sorted_places(columns)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
