"""The keys on which tuples of both inputs have to agree, as numbers that they share."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Mask
from penstock.operators.joins.partners.side import Side
from penstock.operators.joins.shared_codes import SharedCodes
from penstock.plan.expressions import Expression
from penstock.plan.nodes.joins import Join


class JoinKeys:
    def __init__(self, node: Join, keys: list[tuple[Expression, Expression]]) -> None:
        self._columns = [
            [compile_expression(pair[port], branch.schema) for pair in keys]
            for port, branch in enumerate(node.branches)
        ]
        self._codes = SharedCodes([left.type for left, _ in keys])

    def of(self, port: int, rows: pa.RecordBatch) -> tuple[Codes, Mask | None]:
        """The codes of rows, and which of them can be equal to anything; None: all of them."""
        columns = [column(rows) for column in self._columns[port]]
        return self._codes.of(columns, rows.num_rows)

    def forget(self, sides: Sequence[Side]) -> None:
        """Give up the numbers of keys that no tuple has, when these are the most."""
        self._codes.forget(sides)
