"""Unnest: every tuple once for each item of an ARRAY or MAP of it; progress passes as it is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import column_of
from penstock.expressions.compile import compile_expression
from penstock.expressions.nested.nested import bounds_of
from penstock.model.types import BIGINT, INT, Kind
from penstock.operators.batch import Batch
from penstock.operators.operator import Item, Progress
from penstock.operators.stateless.stateless import Stateless
from penstock.plan.nodes.unnest import Unnest


class UnnestOperator(Stateless):
    def __init__(self, node: Unnest) -> None:
        self._node = node
        self._collection = compile_expression(node.expression, node.input.schema)
        self.schema: pa.Schema = node.schema.arrow

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        made = self.unnested(batch)
        return [made] if made.num_rows else []

    def unnested(self, batch: Batch) -> Batch:
        lists = self._collection(batch.rows)
        begins, sizes = bounds_of(lists)
        copies = np.maximum(sizes, 1) if self._node.outer else sizes
        rows = np.repeat(np.arange(len(lists)), copies)
        ends = np.cumsum(copies)
        numbers = np.arange(len(rows)) - np.repeat(ends - copies, copies)
        empty = np.repeat(sizes == 0, copies)  # of tuples that come without an item
        places = pa.array(np.where(empty, 0, np.repeat(begins, copies) + numbers), mask=empty)
        taken = batch.take(rows)
        items = self._items(lists.values.take(places))
        if self._node.from_zero:
            items.insert(0, column_of(numbers, INT, places))
        elif self._node.numbered:
            items.append(column_of(numbers + 1, BIGINT, places))
        columns = [*taken.rows.columns, *items]
        return taken.with_rows(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def _items(self, items: pa.Array) -> list[pa.Array]:
        node = self._node
        if node.expression.type.kind is Kind.MAP or node.spread:
            return [pc.struct_field(items, [place]) for place in range(items.type.num_fields)]
        return [items]

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        return [progress]
