"""Rows of partitions put in the order of OVER, and what its calls say of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints, Mask
from penstock.operators.over.calls import call_over_rows
from penstock.operators.over.frame_bounds import RowsInPartitions
from penstock.operators.over.row_order import RowOrder
from penstock.operators.ticks import to_ticks
from penstock.plan.nodes.over_calls import frames_of
from penstock.plan.nodes.rows_over import RowsOver


class PartitionSorter:
    def __init__(self, node: RowsOver) -> None:
        given = node.input.schema
        self._node = node
        self._partition = [compile_expression(each, given) for each in node.partition]
        self._calls = [call_over_rows(each.call, given) for each in node.calls]
        self._order = RowOrder(node, given)
        self._measured = any(frame.has_lengths for frame in frames_of(node.calls))
        self._times = [compile_expression(key.expression, given) for key in node.order[:1]]

    def keys(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """What tells the partitions of rows apart."""
        return [column(rows) for column in self._partition]

    def sort(self, rows: pa.RecordBatch, codes: Codes) -> tuple[RowsInPartitions, Ints]:
        """Rows by partition and order, and which ones they are."""
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
        key = self._node.order[0]
        timed = np.asarray(column.is_valid()) if column.null_count else None
        ticks = np.zeros(len(column), np.int64)
        ticks[timed if timed is not None else slice(None)] = to_ticks(
            column.drop_null(), key.expression.type
        )
        # turned round, the greatest is the least, and distances are what they were
        return ~ticks if key.descending else ticks, timed

    def answered(self, given: RowsInPartitions, targets: Ints) -> list[pa.Array]:
        """What the calls say of the rows at some places."""
        return [] if self._node.bare else [call.of(given, targets) for call in self._calls]

    def shown(self, given: RowsInPartitions) -> Ints:
        """The places of the rows that come out."""
        within = self.within_limit(given)
        if not self._node.skip:
            return within
        numbers = np.asarray(self._calls[0].of(given, within))
        return within[numbers > self._node.skip]

    def within_limit(self, given: RowsInPartitions) -> Ints:
        """The places of the rows that come out, or decide which ones do."""
        if self._node.most is None:
            return np.arange(len(given))
        return np.flatnonzero(self.limited_numbers(given) <= self.limit)

    @property
    def limit(self) -> int:
        assert self._node.most is not None
        return self._node.most[1]

    def limited_numbers(self, given: RowsInPartitions) -> Ints:
        """The numbers of rows that have a limit."""
        assert self._node.most is not None
        return np.asarray(self._calls[self._node.most[0]].of(given, np.arange(len(given))))
