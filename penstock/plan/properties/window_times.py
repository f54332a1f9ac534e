"""Columns that say when a window begins and ends: how far apart they are is known."""

from __future__ import annotations

from typing import NamedTuple

from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.aggregates import GroupAggregate, WindowAggregate
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Filter, Project
from penstock.windows.sliding import Sliding

_START, _END = 1, 2  # the places of window_start and window_end


class TimeOfWindow(NamedTuple):
    """A column that is always so many `ticks` behind the beginning of the windows of a node."""

    node: WindowAggregate | DistinctOn
    window: Sliding
    ticks: int


def ticks_between(node: Node, one: Column, other: Column) -> int | None:
    """How much later `other` always is than `one`: both are of one window."""
    first, second = time_of_window(node, one), time_of_window(node, other)
    if first is None or second is None or first.node is not second.node:
        return None
    return second.ticks - first.ticks


def time_of_window(node: Node, column: Expression) -> TimeOfWindow | None:
    """Of which windows a column tells the beginning or the end, under whatever name."""
    if not isinstance(column, Column):
        return None
    match node:
        case Filter():
            return time_of_window(node.input, column)
        case Project():
            made = node.columns[column.position(node.schema)]
            return time_of_window(node.input, made.expression)
        case GroupAggregate():
            place = column.position(node.schema)
            if place < len(node.keys):
                return time_of_window(node.input, node.keys[place].expression)
        case WindowAggregate() | DistinctOn():
            window, place = node.window, column.position(node.schema)
            if isinstance(window, Sliding) and place in (_START, _END):
                return TimeOfWindow(node, window, window.range if place == _END else 0)
    return None
