"""What windows that count rows ask of the results that they count: one order, whatever the cut, the
order of arrival and the engine are.

Windows and groups are given in the order of their keys.  A group that has several keys to complete
it waits for the first of them, and rows made DISTINCT wait as the groups that they are.  The row
windows of several partitions come as the tuples do that fill them.  Items that may be taken back
fill no window by themselves, and the pairs of a join leave as soon as both tuples are there, so
those have no order to be counted in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from penstock.errors import PlanError
from penstock.plan.expressions import Column, Expression, Named
from penstock.plan.nodes.aggregates import Distinct, GroupAggregate, Window, WindowAggregate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.over import Over
from penstock.plan.nodes.stateless import Filter, Project, Stamp, Union
from penstock.plan.nodes.unnest import Unnest
from penstock.windows.rows import RowWindow
from penstock.windows.slide_by_tuple import SlideByTuple

_Columns: TypeAlias = frozenset[Column]


def to_be_counted(node: Node, window: Window, partition: tuple[Expression, ...]) -> Node:
    """The node that gives the same rows to a window of some partition, in order if it counts them.

    before: Filter(Distinct(Project k, t))
    after:  Filter(GroupAggregate BY k, t (Project k, t))
    """
    counts = isinstance(window, RowWindow) or (
        isinstance(window, SlideByTuple) and window.every > 1
    )
    if not counts:
        return node
    return _in_order(node, frozenset(each for each in partition if isinstance(each, Column)))


def _in_order(node: Node, same: _Columns) -> Node:
    """`same` are the columns in which all rows agree that are counted together."""
    match node:
        case Filter() | Stamp():
            return replace(node, input=_in_order(node.input, same))
        case Project():
            pairs = zip(node.schema, node.columns, strict=True)
            below = [each.expression for field, each in pairs if Column.of(field) in same]
            kept = frozenset(each for each in below if isinstance(each, Column))
            return replace(node, input=_in_order(node.input, kept))
        case Lookup() | Unnest():
            own = frozenset(Column.of(field) for field in node.input.schema)
            return replace(node, input=_in_order(node.input, same & own))
        case Union():
            return replace(node, branches=tuple(_in_order(*each) for each in _branches(node, same)))
        case Distinct() if not node.signed:  # signed items come in the order of their times
            keys = tuple(Named(field.name, Column.of(field)) for field in node.schema)
            return GroupAggregate(node.input, keys, (), node.span, counted=True)
        case GroupAggregate():
            return replace(node, counted=True)
        case WindowAggregate(window=RowWindow()) if not _counted_apart(node, same):
            if node.input.signed:
                raise _no_order(node)
            return replace(node, counted=True)
        case Difference():  # whose items of one time come in the order of their left tuples
            fields = zip(node.schema, node.left.schema, strict=False)  # and changed_at
            own = frozenset(Column.of(left) for given, left in fields if Column.of(given) in same)
            return replace(node, left=_in_order(node.left, own))
        case Over():
            raise PlanError(
                "these rows have no order to be counted in: every partition of OVER and LIMIT is"
                " ready at a time of its own",
                expected="a window over one of the times",
            )
        case Join():
            raise PlanError(
                "these rows have no order to be counted in: the pairs of a join come as soon as "
                "both tuples are there",
                expected="a window over one of the times, or groups by both of them",
            )
    return node


def _branches(node: Union, same: _Columns) -> list[tuple[Node, _Columns]]:
    places = [place for place, field in enumerate(node.schema) if Column.of(field) in same]
    return [
        (branch, frozenset(Column.of(branch.schema.fields[place]) for place in places))
        for branch in node.branches
    ]


def _counted_apart(node: WindowAggregate, same: _Columns) -> bool:
    names = {column.name for column in same}
    return all(part.name in names for part in node.partition)


def _no_order(node: WindowAggregate) -> PlanError:
    shown = [
        part.expression.name if isinstance(part.expression, Column) else part.name
        for part in node.partition
    ]
    return PlanError(
        "these rows have no order to be counted in: every partition of the row windows below "
        "closes windows at a pace of its own",
        expected="a window that counts each partition apart, or windows over values below",
        hint=f"PA {shown[0] if len(shown) == 1 else '(' + ', '.join(shown) + ')'}",
    )
