"""A run: what is shared by the nodes of a plan while it is answered, and what is found late."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.model.clock import Clock, SystemClock
from penstock.model.schema import Schema
from penstock.model.types import BIGINT, Type, to_arrow
from penstock.plan.query import Late
from penstock.sinks.cells import column_texts
from penstock.sources.rejects import RejectLog


@dataclass(frozen=True, slots=True)
class LateTuple:
    """A tuple that came below its bound, and the ids of the first and the last window it missed
    (None where it is late as a whole)."""

    values: tuple[Any, ...]
    bound: Any
    missed: tuple[Any, Any] | None = None


@dataclass
class LateTuples:
    """The late tuples of one operator."""

    schema: Schema
    bound_type: Type
    id_type: Type
    tuples: list[LateTuple] = field(default_factory=list)

    def table(self) -> pa.Table:
        names = self.schema.names
        unique = len(set(names)) == len(names)
        columns = {
            (each.name if unique else each.qualified): to_arrow(
                [late.values[i] for late in self.tuples], each.type
            )
            for i, each in enumerate(self.schema)
        }
        columns["late_bound"] = to_arrow([late.bound for late in self.tuples], self.bound_type)
        for i, name in enumerate(("missed_first", "missed_last")):
            ids = [late.missed[i] if late.missed else None for late in self.tuples]
            columns[name] = to_arrow(ids, self.id_type)
        return pa.table(columns)


@dataclass
class Run:
    late: Late = Late.DROP
    clock: Clock = field(default_factory=SystemClock)
    rejects: RejectLog = field(default_factory=RejectLog)
    tuples_read: int = 0
    late_tuples: list[LateTuples] = field(default_factory=list)

    @property
    def keeps_late(self) -> bool:
        """Whether late tuples count after all."""
        return self.late is Late.AMEND

    def late_at(self, schema: Schema, bound_type: Type, id_type: Type = BIGINT) -> LateTuples:
        """Where an operator puts the late tuples that it meets."""
        self.late_tuples.append(LateTuples(schema, bound_type, id_type))
        return self.late_tuples[-1]

    @property
    def late_count(self) -> int:
        return sum(len(each.tuples) for each in self.late_tuples)

    def late_table(self) -> pa.Table:
        tables = [each.table() for each in self.late_tuples if each.tuples]
        if not tables:
            tables = [each.table() for each in self.late_tuples[:1]]
        return (
            pa.concat_tables(_alike(tables), promote_options="default") if tables else pa.table({})
        )


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Columns that have one name but different types become texts."""
    types: dict[str, set[pa.DataType]] = {}
    for table in tables:
        for field_ in table.schema:
            types.setdefault(field_.name, set()).add(field_.type)
    mixed = {name for name, found in types.items() if len(found) > 1}
    return [
        pa.table(
            {
                name: pa.array(column_texts(column), pa.string()) if name in mixed else column
                for name, column in zip(table.column_names, table.columns, strict=True)
            }
        )
        for table in tables
    ]
