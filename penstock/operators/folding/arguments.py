"""What an aggregate sees of the rows of a batch: those that its FILTER lets pass, without NULLs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.compile import compile_expression, compile_predicate
from penstock.model.arrays import Mask
from penstock.model.schema import Schema
from penstock.plan.expressions import AggregateCall, Column, columns_of


@dataclass(slots=True)  # not frozen, like batches
class Arguments:
    """What one aggregate sees of some rows: which of them (None: all), and its arguments there."""

    chosen: Mask | None
    columns: list[pa.Array]


NO_ARGUMENTS = Arguments(None, [])


class ArgumentsOf:
    """The arguments of an aggregate that differ from row to row: without the constants at the end.

    They are evaluated for the rows that pass the FILTER alone, which may be there to keep away
    those for which they have no value."""

    def __init__(self, call: AggregateCall, schema: Schema) -> None:
        arguments = call.arguments[: len(call.arguments) - call.function.constants]
        self._holds = compile_predicate(call.where, schema) if call.where is not None else None
        self._positions: list[int] | None = None  # of the columns that are looked at, if filtered
        if self._holds is not None and not all(isinstance(each, Column) for each in arguments):
            used = {column.position(schema) for each in arguments for column in columns_of(each)}
            self._positions = sorted(used)
            schema = Schema(tuple(schema.fields[position] for position in self._positions))
            self._schema = schema.arrow
        self._columns = [compile_expression(each, schema) for each in arguments]
        # whether all rows count, whatever is in them
        self.takes_all = self._holds is None and not self._columns

    def of(self, batch: pa.RecordBatch) -> Arguments:
        if self._holds is None:
            return _without_nulls([column(batch) for column in self._columns], None)
        mask = self._holds(batch)
        if self._positions is None:
            columns = [column(batch).filter(mask) for column in self._columns]
        else:
            columns = [column(self._passing(batch, mask)) for column in self._columns]
        return _without_nulls(columns, np.asarray(mask))

    def _passing(self, batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
        assert self._positions is not None
        if not self._positions:  # constants: as many as there are rows
            return batch.select([0]).filter(mask)
        arrays = [batch.column(position).filter(mask) for position in self._positions]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _without_nulls(columns: list[pa.Array], mask: Mask | None) -> Arguments:
    """The columns have a value for each row of the mask."""
    if any(column.null_count for column in columns):
        valid = np.ones(len(columns[0]), np.bool_)
        for column in columns:
            valid &= np.asarray(pc.is_valid(column))
        columns = [column.filter(pa.array(valid)) for column in columns]
        if mask is None:
            mask = valid
        else:
            mask = mask.copy()
            mask[mask] = valid
    return Arguments(mask, columns)
