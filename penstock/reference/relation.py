"""Relations between nodes of the reference engine: complete, with rows in arrival order; and the
state of one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from penstock.expressions.evaluation import Bounding, bounding, evaluator, reached
from penstock.io.sources.rejects import RejectLog
from penstock.model.clock import Clock, SystemClock
from penstock.model.ordering import exact_key, sort_key
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.ticks import Domain
from penstock.model.types import BIGINT, BOOLEAN, Field, Schema, Type, late_names
from penstock.model.values import to_arrow
from penstock.plan.expressions import Column, Expression, rises_with
from penstock.plan.nodes.over import OrderKey
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.tables import OrderedRows, OrElse
from penstock.runs.answer import join_tables

Key: TypeAlias = tuple[str, str | None]
Bounds: TypeAlias = dict[Key, Any]
"""Values of progressing columns; a column that is not there has promised nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple, the bounds of its source before it came, its sign, and its lineage, the tuples that
    it is made of; `turns` are the times of items that come and go."""

    values: tuple[Any, ...]
    bounds: Bounds = field(default_factory=dict)
    sign: int = 1
    lineage: tuple[Hashable, ...] = ()
    turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows of a node; `high` is the highest value of each progressing column, whether or not its
    row is still included."""

    schema: Schema
    rows: list[Row]
    high: Bounds = field(default_factory=dict)


def bound_evaluator(expression: Expression) -> Callable[[Bounds], Any]:
    """Make a function from bounds on columns to the bound on an expression that rises with them."""
    return _over_bounds(expression, bounding)


def reach_evaluator(expression: Expression) -> Callable[[Bounds], Any]:
    """Make a function from highest values of columns to that of an expression that rises with
    them."""
    return _over_bounds(expression, reached)


def _over_bounds(
    expression: Expression, by: Callable[[Expression, Sequence[Column]], Bounding]
) -> Callable[[Bounds], Any]:
    columns = tuple(dict.fromkeys(rises_with(expression)))
    evaluate = by(expression, columns) if columns else None

    def bound(bounds: Bounds) -> Any:
        found = [bounds.get((each.name, each.relation), BEGINNING) for each in columns]
        if evaluate is None or BEGINNING in found:
            return BEGINNING
        return evaluate(found)

    return bound


def tick_bound(domain: Domain, bound: Any) -> Bound:
    return BEGINNING if bound == BEGINNING else domain.tick(bound)


def carried(bounds: Bounds, renamed: list[tuple[Key, Callable[[Bounds], Any]]]) -> Bounds:
    """Bounds of computed columns."""
    found = {key: evaluate(bounds) for key, evaluate in renamed}
    return {key: bound for key, bound in found.items() if bound != BEGINNING}


def field_key(field_: Field | Column) -> Key:
    return (field_.name, field_.relation)


# A run: state that the nodes of a plan share while it is evaluated, and the late tuples found.


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
    """One evaluation of a query: its clock, its rejects, its late tuples, and the streams read
    so far."""

    query: QueryPlan | None = None  # None drops late tuples
    clock: Clock = field(default_factory=SystemClock)
    rejects: RejectLog = field(default_factory=RejectLog)
    tuples_read: int = 0
    late_tuples: list[LateTuples] = field(default_factory=list)
    scanned: dict[int, Relation] = field(default_factory=dict)  # by stream: each is read once
    is_of_tables: bool = False

    @cached_property
    def of_tables(self) -> Run:
        """The run that reads tables, whose rows are not counted among the tuples read."""
        if self.is_of_tables:
            return self
        return Run(self.query, self.clock, self.rejects, is_of_tables=True)

    def gone(self, bound: Bound, domain: Domain) -> Bound:
        """Bound below which a tuple does not count: a late tuple above it is amended."""
        if bound == BEGINNING or self.query is None:
            return bound
        grace = self.query.grace(domain)
        return BEGINNING if grace is None else bound - grace

    def late_at(self, schema: Schema, bound_type: Type, id_type: Type = BIGINT) -> LateTuples:
        """Register and return the collection for the late tuples of an operator."""
        amends = self.query is not None and self.query.amend_for is not None
        self.late_tuples.append(LateTuples(schema, bound_type, id_type, amends))
        return self.late_tuples[-1]

    def late_table(self) -> pa.Table:
        return join_tables([each.table() for each in self.late_tuples], self.query)


# Signed items as tuples with a lifetime: from a positive item to the negative one that retracts it.


class Presence(NamedTuple):
    """Lifetime of a positive item: its number, the item, and a half-open interval."""

    number: int
    row: Row
    since: int
    until: Bound


def presences(items: Sequence[tuple[Row, int]]) -> list[Presence]:
    """Lifetimes of items with times, in their order of arrival."""
    found: dict[int, Presence] = {}
    for number, taken_back in matched(items):
        row, since = items[number]
        until = END if taken_back is None else items[taken_back][1]
        found[number] = Presence(number, row, since, until)
    return [found[number] for number in sorted(found)]


P = TypeVar("P", int, float)


def matched(items: Sequence[tuple[Row, P]]) -> Iterable[tuple[int, int | None]]:
    """Pairs of numbers of positive items and of the negative items that retract them: among those
    of its lineage, the next one that finds no later item to retract. A negative item without a
    match has no effect."""
    open_: dict[Hashable, list[int]] = defaultdict(list)
    partners: dict[int, int | None] = {}
    for number in sorted(range(len(items)), key=lambda number: _order(*items[number])):
        row = items[number][0]
        if row.sign > 0:
            open_[row.lineage].append(number)
            partners[number] = None
        elif open_[row.lineage]:
            partners[open_[row.lineage].pop()] = number
    return partners.items()


def _order(row: Row, position: P) -> tuple[P, int, tuple[int, ...]]:
    """Sort key of items: by position. At one position, items of one tuple come as they happened;
    those of joined tuples may be caused by one tuple, in no order. There, positive items come
    first, and are retracted first in, first out: so the latest is left."""
    if len(row.lineage) < 2:
        return position, 0, ()
    return position, -row.sign, tuple(-turn for turn in row.turns)


# Nodes over tables alone: all rows in order, and rows that stand for none.


def ordered_rows(node: OrderedRows, given: Relation) -> Relation:
    """Sort by the last key first: sorting is stable."""
    rows = given.rows
    for tie in reversed([each for each in node.ties if not each.type.is_nested]):
        value = evaluator(tie, given.schema)
        rows = sorted(rows, key=lambda row: exact_key(value(row.values)))
    for key in reversed(node.order):
        rows = _sorted(rows, key, given)
    return Relation(node.schema, rows)


def _sorted(rows: list[Row], key: OrderKey, given: Relation) -> list[Row]:
    value = evaluator(key.expression, given.schema)

    def known(row: Row) -> Any:
        return sort_key(value(row.values))

    nulls = [row for row in rows if value(row.values) is None]
    others = [row for row in rows if value(row.values) is not None]
    others.sort(key=known, reverse=key.descending)
    return [*nulls, *others] if key.nulls_first else [*others, *nulls]


def or_else(node: OrElse, given: Relation) -> Relation:
    if node.single and len(given.rows) > 1:
        raise node.several(len(given.rows))
    otherwise = [Row(tuple(each.value for each in row)) for row in node.otherwise]
    return Relation(node.schema, given.rows or otherwise)
