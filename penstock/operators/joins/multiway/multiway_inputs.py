"""The inputs of a join of several: which of their tuples can be in a result, and at what times."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints
from penstock.model.punctuation import Bound
from penstock.operators.batch import Batch
from penstock.operators.joins.shared_codes import can_be_equal
from penstock.operators.operator import LateRows, Progress
from penstock.operators.revising.amendment import in_time_of
from penstock.operators.ticks import to_ticks
from penstock.physical.asked import Asked
from penstock.plan.nodes.joins import Join
from penstock.plan.properties.equalities import conditions_of


class MultiwayInputs:
    """`columns` are the names of those of each input."""

    def __init__(self, node: Join, asked: Asked | None) -> None:
        timed = list(zip(node.attributes, node.branches, strict=True))
        inputs = zip(node.times, node.branches, strict=True)
        self._in_time = [in_time_of(list(times), each, asked) for times, each in inputs]
        self._places = [attribute.position(each.schema) for attribute, each in timed]
        self._types = [attribute.type for attribute in node.attributes]
        self.columns: Sequence[list[str]] = [
            [field.qualified for field in each.schema] for each in node.branches
        ]
        keys = [
            [each.of(port) for each in conditions_of(node).equalities if port in each.inputs]
            for port in range(len(node.branches))
        ]
        self._key_types = [[key.type for key in own] for own in keys]
        self._keys = [
            [compile_expression(key, each.schema) for key in own]
            for own, each in zip(keys, node.branches, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._keys)

    def in_time(self, port: int, batch: Batch) -> tuple[Batch, Ints, list[LateRows]]:
        """The tuples that count, their times, and the late ones."""
        given, ticks, late = self._in_time[port].split_signed(batch)
        return given, ticks[0], late

    def with_keys(self, port: int, given: Batch, ticks: Ints) -> tuple[Batch, Ints]:
        """Tuples that can be in a result: no key is NULL."""
        columns = [key(given.rows) for key in self._keys[port]]
        equal = can_be_equal(columns, self._key_types[port])
        if equal is None:
            return given, ticks
        return given.filter(pa.array(equal)), ticks[equal]

    def final(self, port: int, progress: Progress) -> list[Bound]:
        """The bounds on the times of an input below which everything of it is there."""
        return self._in_time[port].final(progress)

    def ticks(self, port: int, rows: pa.RecordBatch) -> Ints:
        return to_ticks(rows.column(self._places[port]), self._types[port])

    def named(self, port: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that were saved: the columns are the same, but may be called something else now."""
        return rows.rename_columns(self.columns[port])
