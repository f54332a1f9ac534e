"""What leaves a join: pairs, or tuples with nothing beside them."""

from __future__ import annotations

import pyarrow as pa

from penstock.operators.batch import Batch
from penstock.operators.joins.partners.pairs import Pairs
from penstock.plan.nodes.joins import Join


class JoinResults:
    def __init__(self, node: Join) -> None:
        self._schema = node.schema.arrow
        self._alone = node.kind.left_alone
        self._types = [branch.schema.arrow.types for branch in node.branches]

    def pairs(self, port: int, pairs: Pairs) -> Batch:
        """Where tuples came at a port."""
        columns = pairs.columns(port == 0) + pairs.columns(port == 1)
        return Batch(self._made(columns), pairs.signs(), lineage=pairs.lineage(port))

    def alone(self, port: int, rows: pa.RecordBatch) -> Batch:
        """Tuples of a port that come without a partner, or for the sake of one."""
        if self._alone:
            return Batch(self._made(rows.columns))
        nothing = [pa.nulls(rows.num_rows, each) for each in self._types[1 - port]]
        return Batch(self._made(rows.columns + nothing if port == 0 else nothing + rows.columns))

    def _made(self, columns: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
