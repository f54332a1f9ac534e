"""Streams whose tuples get their times from Penstock: the column that those are in, stamped or
computed from what was read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.expressions.compile import compile_expression
from penstock.model.plain_values import to_arrow, to_python
from penstock.model.types import TIMESTAMP
from penstock.plan.expressions import Expression
from penstock.plan.streams import StreamDefinition
from penstock.scalars.evaluate import evaluator
from penstock.sources.source import Chunk


def stamped(stream: StreamDefinition, batch: pa.RecordBatch, stamps: list[int]) -> pa.RecordBatch:
    """INTERNAL: every tuple has the time at which it came in."""
    return _with_stamps(stream, batch, pa.array(stamps, TIMESTAMP.arrow))


def stamped_later(stream: StreamDefinition, batch: pa.RecordBatch) -> pa.RecordBatch:
    """LATENT: there is a column for the stamps, if the stream has one."""
    if not stream.stamped:
        return batch
    return _with_stamps(stream, batch, pa.nulls(batch.num_rows, TIMESTAMP.arrow))


def _with_stamps(
    stream: StreamDefinition, batch: pa.RecordBatch, stamps: pa.Array
) -> pa.RecordBatch:
    position = stream.schema.index(stream.attribute.name)
    return batch.add_column(position, stream.attribute.name, stamps)


class ComputedTimes:
    """PROGRESS ON expression: every tuple has the value of the expression; NULL if it has none."""

    def __init__(self, stream: StreamDefinition, expression: Expression) -> None:
        self._stream, self._expression = stream, expression
        self._schema = stream.input_schema
        self._compute = compile_expression(expression, self._schema)

    @staticmethod
    def of_stream(stream: StreamDefinition) -> ComputedTimes | None:
        computed = stream.progress.computed if stream.progress is not None else None
        return None if computed is None else ComputedTimes(stream, computed)

    def of(self, chunk: Chunk) -> Chunk:
        batch = chunk.batch
        try:
            times = self._compute(batch)
        except (PenstockError, pa.ArrowInvalid):
            times = self._one_by_one(batch)
        position = self._stream.schema.index(self._stream.attribute.name)
        made = batch.add_column(position, self._stream.attribute.name, times)
        return replace(chunk, batch=made)

    def _one_by_one(self, batch: pa.RecordBatch) -> pa.Array:
        """It fails for some tuple, perhaps for a few only."""
        columns = zip(batch.columns, self._schema, strict=True)
        rows = zip(*(to_python(column, field.type) for column, field in columns), strict=True)
        evaluate = evaluator(self._expression, self._schema)

        def time(values: tuple[Any, ...]) -> Any:
            try:
                return evaluate(values)
            except PenstockError:
                return None

        return to_arrow([time(values) for values in rows], self._expression.type)
