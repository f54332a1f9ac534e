"""Columns that say when a window begins and ends: how far apart they are is known."""

from __future__ import annotations

from penstock.plan.aggregates import GroupAggregate, WindowAggregate
from penstock.plan.distinct_on import DistinctOn
from penstock.plan.expressions import Column, Expression
from penstock.plan.node import Node
from penstock.plan.stateless import Filter, Project
from penstock.windows.sliding import Sliding

_START, _END = 1, 2  # the places of window_start and window_end


def ticks_between(node: Node, one: Column, other: Column) -> int | None:
    """How much later `other` always is than `one`: both are of one window."""
    first, second = _of_window(node, one), _of_window(node, other)
    if first is None or second is None or first[0] is not second[0]:
        return None
    return second[1] - first[1]


def _of_window(node: Node, column: Expression) -> tuple[Node, int] | None:
    """The windows that a column comes from, and how far behind their beginnings it is."""
    if not isinstance(column, Column):
        return None
    match node:
        case Filter():
            return _of_window(node.input, column)
        case Project():
            return _of_window(node.input, node.columns[column.position(node.schema)].expression)
        case GroupAggregate():
            place = column.position(node.schema)
            if place < len(node.keys):
                return _of_window(node.input, node.keys[place].expression)
        case WindowAggregate(window=Sliding() as window) | DistinctOn(window=Sliding() as window):
            place = column.position(node.schema)
            if place in (_START, _END):
                return node, window.range if place == _END else 0
    return None
