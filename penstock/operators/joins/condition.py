"""Which pairs of tuples join, among those whose keys are equal and whose times fit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import flags_of
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Mask
from penstock.model.schema import Schema
from penstock.model.types import Type
from penstock.operators.joins.pairs import Pairs
from penstock.operators.ticks import to_ticks
from penstock.plan.expressions import Column, Expression, all_of, columns_of
from penstock.plan.joins import Join


class Condition:
    """The rest of the condition, and further times that have to fit."""

    def __init__(self, node: Join, others: list[Expression]) -> None:
        rest = all_of(others)
        columns = columns_of(rest) if rest is not None else []
        times = [column for each in node.also for column in (each.left, each.right)]
        places = sorted({c.position(node.pair_schema) for c in (*columns, *times)})
        schema = Schema(tuple(node.pair_schema.fields[place] for place in places))
        width = len(node.branches[0].schema)
        self._schema = schema.arrow
        self._left = [place for place in places if place < width]
        self._right = [place - width for place in places if place >= width]
        self._holds = compile_expression(rest, schema) if rest is not None else None
        self._also = [
            (_tick_column(each.left, schema), _tick_column(each.right, schema), each.window)
            for each in node.also
        ]

    def among(self, pairs: Pairs, port: int) -> Pairs:
        """The pairs that join, where tuples came at a port."""
        if (self._holds is None and not self._also) or not len(pairs):
            return pairs
        columns = pairs.columns(self._left, port == 0) + pairs.columns(self._right, port == 1)
        if self._schema.names:
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        else:  # a condition without columns
            batch = pa.record_batch({"_": pa.nulls(len(pairs))})
        holds: Mask = np.ones(len(pairs), np.bool_)
        if self._holds is not None:
            holds = flags_of(self._holds(batch))
        for (left, left_type), (right, right_type), window in self._also:
            ticks = (
                to_ticks(batch.column(left), left_type),
                to_ticks(batch.column(right), right_type),
            )
            holds &= window.matches_columns(*ticks)
        return pairs.filter(holds)


def _tick_column(column: Column, schema: Schema) -> tuple[int, Type]:
    return column.position(schema), column.type
