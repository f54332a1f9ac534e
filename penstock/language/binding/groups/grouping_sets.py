"""GROUPING SETS: every tuple is folded once for each set, in one pass over one input.

Copies of a tuple differ in the number of their set, and in the keys that are not in it, which are
NULL.  So one aggregation answers for all sets, whatever its windows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.errors import BindError, Span
from penstock.language.binding.windows.windows import BoundWindow
from penstock.model.names import free_name
from penstock.model.types import BIGINT, BOOLEAN, INT
from penstock.plan.expressions import Call, Case, Column, Expression, Literal, Named
from penstock.plan.nodes.aggregates import NamedAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Project, Union
from penstock.plan.substitution import substituted
from penstock.windows.rows import RowWindow
from penstock.windows.slide_by_tuple import SlideByTuple

SET = "grouping set"  # the key that tells sets apart


@dataclass(frozen=True, slots=True)
class GroupingSets:
    """The keys of a grouping, and which of them each set has, by their places."""

    keys: tuple[Named, ...]
    sets: tuple[frozenset[int], ...]

    def grouping(self, arguments: Sequence[Expression], span: Span | None) -> Expression:
        """grouping(a, b): a bit for each key, the last one for the last, that is 1 where rows are
        not grouped by it."""
        places = []
        for argument in arguments:
            found = [n for n, key in enumerate(self.keys) if key.expression == argument]
            if not found:
                raise BindError("grouping takes keys of GROUP BY", span=argument.span or span)
            places.append(found[0])
        values = [
            sum((place not in own) << bit for bit, place in enumerate(reversed(places)))
            for own in self.sets
        ]
        if not self.is_several:
            return Literal(values[0], BIGINT, span=span)
        number = Column(SET, INT)
        branches = tuple(
            (Call("eq", (number, Literal(n, INT)), BOOLEAN), Literal(value, BIGINT))
            for n, value in enumerate(values)
        )
        return Case(branches, Literal(None, BIGINT), BIGINT, span=span)

    @property
    def is_several(self) -> bool:
        return len(self.sets) > 1


class Aggregation(NamedTuple):
    """What is aggregated, by which keys, and over which windows."""

    node: Node
    keys: list[Named]
    aggregates: list[NamedAggregate]
    window: BoundWindow | None


def in_sets(given: Aggregation, sets: GroupingSets, span: Span) -> Aggregation:
    """The same over copies of tuples, if there are several sets.

    before: aggregates BY GROUPING SETS ((a, b), (a)) over s
    after:  aggregates BY a, b, set over Union of (s, 0 AS set) and (s, NULL AS b, 1 AS set)
    """
    if not sets.is_several:
        return given
    node, bound = given.node, given.window
    if bound is not None and isinstance(bound.window, RowWindow | SlideByTuple):
        raise BindError(
            "a window that counts rows would count them once for every grouping set",
            span=span,
            expected="a window over values",
        )
    taken: set[str] = set()
    names: dict[Column, str] = {}
    for field in node.schema:
        names[Column.of(field)] = name = free_name(field.name, taken)
        taken.add(name)
    key_names = []
    for number, _ in enumerate(sets.keys):
        key_names.append(free_name(f"key {number}", taken))
        taken.add(key_names[-1])
    number_name = free_name(SET, taken)
    copies = []
    for number, own in enumerate(sets.sets):
        columns = [Named(name, column) for column, name in names.items()]
        for place, (key, name) in enumerate(zip(sets.keys, key_names, strict=True)):
            kept = place in own
            value = key.expression if kept else Literal(None, key.expression.type)
            columns.append(Named(name, value))
        columns.append(Named(number_name, Literal(number, INT)))
        copies.append(Project(node, tuple(columns)))
    made = Union(tuple(copies), None)
    columns_of_copies = {column: Column(name, column.type) for column, name in names.items()}

    def over(expression: Expression) -> Expression:
        return substituted(expression, lambda column: columns_of_copies[replace(column, span=None)])

    keys = [
        Named(key.name, Column(name, key.expression.type))
        for key, name in zip(sets.keys, key_names, strict=True)
    ]
    keys.append(Named(SET, Column(number_name, INT)))
    attribute = None if bound is None else bound.attribute
    if bound is not None and attribute is not None:
        bound = bound._replace(attribute=over(attribute))
    return Aggregation(made, keys, [_over(each, over) for each in given.aggregates], bound)


def _over(each: NamedAggregate, over: Callable[[Expression], Expression]) -> NamedAggregate:
    call = each.call
    arguments = tuple(over(argument) for argument in call.arguments)
    where = None if call.where is None else over(call.where)
    return replace(each, call=replace(call, arguments=arguments, where=where))
