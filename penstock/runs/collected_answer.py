"""Answers that are collected as a whole, and the rows that are left of a changelog."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.io.sinks.sink import Collected
from penstock.io.sources.rejects import Reject, RejectLog
from penstock.kernel.grouping.keys import sorted_places
from penstock.kernel.running.running_rows import left_over
from penstock.model.punctuation import SIGN, sign_name
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Answer, Outlet, join_tables, plainly_named


def final_rows(table: pa.Table, sign: str = SIGN) -> pa.Table:
    """Rows of a changelog that are not retracted; of equal rows, the last ones stay. `sign` is the
    name of the column of signs.

    >>> table = pa.table({"n": [1, 2, 1, 2], SIGN: pa.array([1, 1, -1, 1], pa.int8())})
    >>> final_rows(table).to_pydict()
    {'n': [2, 2]}
    """
    signs = np.asarray(table.column(sign), np.int8)
    rows = table.drop_columns([sign])
    if (signs > 0).all():
        return rows
    rows = rows.combine_chunks()
    left = left_over([each.combine_chunks() for each in rows.columns], signs)
    return rows.take(pa.array(left[signs[left] > 0]))


# The whole answer of a query: an outlet that keeps all results.


def in_order(table: pa.Table, column: str) -> pa.Table:
    """Sort rows by a column; equal ones by the other columns, not by their origin."""
    others = [name for name in table.column_names if name != column]
    return table.take(pa.array(sorted_places([table.column(n) for n in (column, *others)])))


class Gathered(Outlet):
    """An outlet that collects results. Late tuples have the columns of all of them."""

    def __init__(self, query: QueryPlan) -> None:
        self._rows = Collected()
        super().__init__(query, self._rows)
        self._query = query
        self._late_tables: list[pa.Table] = []
        self.log = RejectLog()

    def on_late(self, batch: pa.RecordBatch) -> None:
        super().on_late(batch)
        named = plainly_named(batch, self.plain_names)
        self._late_tables.append(pa.Table.from_batches([named]))

    def on_rejects(self, rejects: Sequence[Reject]) -> None:
        super().on_rejects(rejects)
        for reject in rejects:
            self.log.add(reject)

    def answer(self, delivered: int, late: int | None = None) -> Answer:
        """Make the answer from the rows that were not retracted, sorted if the query asks for it;
        `delivered` is the number of rows that the sources could read, and `late` is given where
        late tuples are counted but not kept."""
        query, table = self._query, self._rows.table
        if query.revises and not query.signed:  # items of a difference come and go by themselves
            table = final_rows(table, sign_name(query.schema.arrow.names))
        if query.in_order:
            table = in_order(table, query.progress[0].field.qualified)
        return Answer(table, join_tables(self._late_tables, query), self.log, delivered, late)
