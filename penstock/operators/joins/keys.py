"""The keys on which tuples of both inputs have to agree, as numbers that they share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import present, values_of
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Mask
from penstock.model.types import Kind
from penstock.operators.folding.keys import KeyCodes
from penstock.plan.expressions import Expression
from penstock.plan.joins import Join


class JoinKeys:
    """Without any there is one key, and all tuples have it."""

    def __init__(self, node: Join, keys: list[tuple[Expression, Expression]]) -> None:
        self._types = [left.type for left, _ in keys]
        self._columns = [
            [compile_expression(pair[port], branch.schema) for pair in keys]
            for port, branch in enumerate(node.branches)
        ]
        self.codes = KeyCodes(self._types)

    def of(self, port: int, rows: pa.RecordBatch) -> tuple[Codes, Mask | None]:
        """The codes of rows, and which of them can be equal to anything: neither NULL nor NaN is.
        None: all of them."""
        columns = [column(rows) for column in self._columns[port]]
        equal: Mask | None = None
        for column, sql_type in zip(columns, self._types, strict=True):
            own: Mask | None = present(column) if column.null_count else None
            if sql_type.kind is Kind.DOUBLE:
                numbers = ~np.isnan(values_of(column, sql_type))
                own = numbers if own is None else own & numbers
            if own is not None and not own.all():
                equal = own if equal is None else equal & own
        if equal is None:
            return self.codes.encode(columns, rows.num_rows), None
        codes = np.zeros(rows.num_rows, np.int64)
        kept = pa.array(equal)
        some = [column.filter(kept) for column in columns]
        codes[equal] = self.codes.encode(some, int(np.count_nonzero(equal)))
        return codes, equal
