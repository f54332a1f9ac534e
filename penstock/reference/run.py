"""A run: what is shared by the nodes of a plan while it is answered, and what is found late."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.model.clock import Clock, SystemClock
from penstock.model.domain import Domain
from penstock.model.names import late_names
from penstock.model.plain_values import to_arrow
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.schema import Schema
from penstock.model.types import BIGINT, BOOLEAN, Type
from penstock.plan.nodes.query import QueryPlan
from penstock.reference.relation import Relation
from penstock.runs.answer import join_tables
from penstock.sources.rejects import RejectLog


@dataclass(frozen=True, slots=True)
class LateTuple:
    """A tuple that came below its bound, the ids of the first and the last window that had been
    closed (None where it is late as a whole), and whether it counts in all of them after all."""

    values: tuple[Any, ...]
    bound: Any
    missed: tuple[Any, Any] | None
    amended: bool


@dataclass
class LateTuples:
    """The late tuples of one operator."""

    schema: Schema
    bound_type: Type
    id_type: Type
    says_amended: bool
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
        bound, *missed, amended = late_names(each.qualified for each in self.schema)
        columns[bound] = to_arrow([late.bound for late in self.tuples], self.bound_type)
        for i, name in enumerate(missed):
            ids = [late.missed[i] if late.missed else None for late in self.tuples]
            columns[name] = to_arrow(ids, self.id_type)
        if self.says_amended:
            columns[amended] = to_arrow([late.amended for late in self.tuples], BOOLEAN)
        return pa.table(columns)


@dataclass
class Run:
    query: QueryPlan | None = None  # None drops late tuples
    clock: Clock = field(default_factory=SystemClock)
    rejects: RejectLog = field(default_factory=RejectLog)
    tuples_read: int = 0
    late_tuples: list[LateTuples] = field(default_factory=list)
    scanned: dict[int, Relation] = field(default_factory=dict)  # by stream: each is read once
    is_of_tables: bool = False

    @cached_property
    def of_tables(self) -> Run:
        """What tuples are looked up in is not among the tuples that are read."""
        if self.is_of_tables:
            return self
        return Run(self.query, self.clock, self.rejects, is_of_tables=True)

    def gone(self, bound: Bound, domain: Domain) -> Bound:
        """Up to where a tuple with this bound before it does not count: what is late above it is
        amended."""
        if bound == BEGINNING or self.query is None:
            return bound
        grace = self.query.grace(domain)
        return BEGINNING if grace is None else bound - grace

    def late_at(self, schema: Schema, bound_type: Type, id_type: Type = BIGINT) -> LateTuples:
        """Where an operator puts the late tuples that it meets."""
        amends = self.query is not None and self.query.amend_for is not None
        self.late_tuples.append(LateTuples(schema, bound_type, id_type, amends))
        return self.late_tuples[-1]

    def late_table(self) -> pa.Table:
        return join_tables([each.table() for each in self.late_tuples], self.query)
