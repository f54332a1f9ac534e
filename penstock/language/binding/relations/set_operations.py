"""UNION, INTERSECT and EXCEPT between SELECTs: rows put together, each once, or by where they come.

A row is remembered until a column of it that progresses has been passed.
"""

from __future__ import annotations

from penstock.errors import BindError
from penstock.functions.aggregates import AGGREGATES
from penstock.language.binding.groups.running import running_distinct, running_groups
from penstock.language.binding.relations.columns import renamed
from penstock.language.binding.relations.relations import BoundSource, pointing_at, unlike
from penstock.language.binding.windows.windows import HOW_TO_RUN
from penstock.language.syntax.names import Name
from penstock.model.names import free_name
from penstock.model.types import BOOLEAN, INT, Type, common_type
from penstock.plan.catalog import RunningAnswers
from penstock.plan.expressions import AggregateCall, Call, Column, Literal, Named, cast_to
from penstock.plan.nodes.aggregates import Distinct, GroupAggregate, NamedAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Filter, Project, Union


def combined(
    sources: list[BoundSource], operations: tuple[Name, ...], running: RunningAnswers | None
) -> Node:
    """The SELECTs of a query as one node.  INTERSECT binds tighter than the others."""
    nodes = _alike(sources)
    terms, between = [nodes[0]], list[Name]()
    for operation, node in zip(operations, nodes[1:], strict=True):
        if operation.text == "INTERSECT":
            terms[-1] = _compared(terms[-1], node, operation, running)
        else:
            terms.append(node)
            between.append(operation)
    return _united(terms, between, running)


def _alike(sources: list[BoundSource]) -> list[Node]:
    """Columns belong together by their places, under the names of the first SELECT, and in types
    that all of them can be brought to."""
    first, *others = sources
    types = [field.type for field in first.node.schema]
    for each in others:
        own = [field.type for field in each.node.schema]
        pairs = zip(types, own, strict=False)
        common = [common_type(one, other) for one, other in pairs]
        if len(own) != len(types) or None in common:
            raise unlike(first, each)
        types = [each for each in common if each is not None]
    names = first.node.schema.names
    return [_brought_to(each.node, names, types) for each in sources]


def _brought_to(node: Node, names: tuple[str, ...], types: list[Type]) -> Node:
    if [field.type for field in node.schema] == types:
        return renamed(node, names)
    columns = tuple(
        Named(name, cast_to(Column.of(field), wanted))
        for name, field, wanted in zip(names, node.schema, types, strict=True)
    )
    return Project(node, columns, node.schema.fields[0].relation)


def _united(terms: list[Node], between: list[Name], running: RunningAnswers | None) -> Node:
    """From the left; a run of UNION ALL is one union."""
    made, united = terms[0], [terms[0]]
    for operation, node in zip(between, terms[1:], strict=True):
        if operation.text == "UNION ALL":
            united.append(node)
            made = Union(tuple(united), None)
            continue
        if operation.text == "UNION":
            made = _once(Union((made, node), None), operation, running)
        else:
            made = _compared(made, node, operation, running)
        united = [made]
    return made


def _once(union: Node, operation: Name, running: RunningAnswers | None) -> Node:
    if not union.progress:
        if running is None:
            raise _endless(operation)
        return running_distinct(union, running, operation.span)
    return pointing_at(operation.span, lambda: Distinct(union, operation.span))


def _compared(left: Node, right: Node, operation: Name, running: RunningAnswers | None) -> Node:
    """
    before: a INTERSECT b
    after:  Filter min(side) < max(side) (GroupAggregate BY all columns (Union 0, a; 1, b))

    EXCEPT keeps the groups in which all rows are from the left.  NULL is a value like others here,
    as it is for GROUP BY.
    """
    if left.signed or right.signed:
        raise BindError(
            f"{operation.text} over a difference, whose rows come and go", span=operation.span
        )
    side = free_name("side", set(left.schema.names))
    tagged = tuple(
        Project(
            node,
            (
                *(Named(field.name, Column.of(field)) for field in node.schema),
                Named(side, Literal(number, INT)),
            ),
        )
        for number, node in enumerate((left, right))
    )
    both = Union(tagged, None)
    if not both.progress and running is None:
        raise _endless(operation)
    keys = tuple(Named(f.name, Column.of(f)) for f in both.schema if f.name != side)
    place = Column.of(both.schema.fields[-1])
    lowest, highest = (
        NamedAggregate(
            free_name(name, {*left.schema.names, side}),
            AggregateCall(AGGREGATES[name], (place,), INT),
        )
        for name in ("min", "max")
    )
    grouped: Node
    if both.progress or running is None:
        grouped = pointing_at(
            operation.span, lambda: GroupAggregate(both, keys, (lowest, highest), operation.span)
        )
    else:
        grouped = running_groups(both, keys, (lowest, highest), running, operation.span)
    ends = (Column(lowest.name, INT), Column(highest.name, INT))
    if operation.text == "INTERSECT":
        kept = Call("lt", ends, BOOLEAN)
    else:
        kept = Call("eq", (ends[1], Literal(0, INT)), BOOLEAN)
    columns = tuple(Named(key.name, Column(key.name, key.expression.type)) for key in keys)
    return Project(Filter(grouped, kept), columns)


def _endless(operation: Name) -> BindError:
    return BindError(
        f"{operation.text} between SELECTs would have to remember every row for ever",
        span=operation.span,
        expected="a column that progresses among those that are selected",
        hint=("UNION ALL, or " if operation.text == "UNION" else "") + HOW_TO_RUN,
    )
