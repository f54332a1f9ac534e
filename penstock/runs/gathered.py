"""The whole answer of a query: an outlet that keeps everything that comes out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.model.batch import sign_name
from penstock.operators.folding.key_order import sorted_places
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Answer, join_tables, plainly_named
from penstock.runs.final_rows import final_rows
from penstock.runs.outlet import Outlet
from penstock.sinks.sink import Collected
from penstock.sources.rejects import Reject, RejectLog


def in_order(table: pa.Table, column: str) -> pa.Table:
    """Rows in the order of a column; of equal ones, the other columns decide, not where they come
    from."""
    others = [name for name in table.column_names if name != column]
    return table.take(pa.array(sorted_places([table.column(n) for n in (column, *others)])))


class Gathered(Outlet):
    """Late tuples come in columns that follow from those there are."""

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
        """The rows that were not taken back, in order if the query asks for it; `delivered` is what
        the sources could read, and `late` is given where late tuples are counted but not kept."""
        query, table = self._query, self._rows.table
        if query.revises and not query.signed:  # items of a difference come and go by themselves
            table = final_rows(table, sign_name(query.schema.arrow.names))
        if query.in_order:
            table = in_order(table, query.progress[0].field.qualified)
        return Answer(table, join_tables(self._late_tables, query), self.log, delivered, late)
