"""Operators over tables alone, which see all rows before they emit one: see `plan/nodes/tables.py`.

They run once, before the first tuple, and are never part of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.operator import NOTHING_OPEN, Base, Item, OpenResults, Progress, at_once
from penstock.kernel.over.frames import sort_numbers
from penstock.kernel.state import ChunkStore
from penstock.model.arrays import Ints
from penstock.model.values import to_arrow
from penstock.plan.nodes.tables import OrderedRows, OrElse


class WholeTable(Base):
    """Collects its input, and emits its answer when the input has ended."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []

    def answer(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        raise NotImplementedError

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        assert batch.signs is None  # a table takes nothing back
        self._batches.append(batch.rows)
        return []

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        if progress.ended:
            table = pa.Table.from_batches(self._batches, self._schema).combine_chunks()
            columns = [column.combine_chunks() for column in table.columns]
            yield Batch(self.answer(pa.RecordBatch.from_arrays(columns, schema=self._schema)))
            self._batches = []
        yield Progress(ended=progress.ended)

    def rows_held(self) -> int:
        return sum(each.num_rows for each in self._batches)

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:  # noqa: ARG002
        raise AssertionError("tables are read by every run, and not saved")

    def load(self, store: ChunkStore) -> None:  # noqa: ARG002
        raise AssertionError("tables are read by every run, and not saved")


class OrderedRowsOperator(WholeTable):
    """Sort all rows of a table by the keys, then by the columns that break ties."""

    def __init__(self, node: OrderedRows) -> None:
        super().__init__(node.schema.arrow)
        schema = node.input.schema
        self._keys = [
            (compile_expression(key.expression, schema), key.descending, key.nulls_first)
            for key in node.order
        ]
        self._ties = [
            compile_expression(each, schema) for each in node.ties if not each.type.is_nested
        ]

    def answer(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        numbers: list[Ints] = [
            sort_numbers(key(rows), descending, nulls_first)
            for key, descending, nulls_first in self._keys
        ]
        numbers += [sort_numbers(tie(rows), exact=True) for tie in self._ties]
        return rows.take(pa.array(np.lexsort(numbers[::-1])))


class OrElseOperator(WholeTable):
    """Answer with the rows of a table, or with the default row if there is none; reject several
    rows where a single one is asked for."""

    def __init__(self, node: OrElse) -> None:
        super().__init__(node.schema.arrow)
        self._otherwise = [
            to_arrow([row[place].value for row in node.otherwise], field.type)
            for place, field in enumerate(node.schema)
        ]
        self._node = node

    def answer(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._node.single and rows.num_rows > 1:
            raise self._node.several(rows.num_rows)
        if rows.num_rows:
            return rows
        return pa.RecordBatch.from_arrays(self._otherwise, schema=self._schema)
