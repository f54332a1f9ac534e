"""Leave out DISTINCT over rows that differ anyway."""

from __future__ import annotations

from typing import TypeAlias

from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter, Project
from penstock.windows.landmark import Landmark
from penstock.windows.rows import RowWindow
from penstock.windows.slide_by_tuple import SlideByTuple

_Columns: TypeAlias = frozenset[Column]


def drop_needless_distinct(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """A window has one row for every group, if the rows say which window and which group they are
    of.  Windows that slide by tuples do not: two tuples of one time open a window each.  Results
    that are revised are left alone, because DISTINCT waits until they are final.

    before: Distinct (Project k, window_end (WindowAggregate count(*) BY k (Scan s)))
    after:  Project k, window_end (WindowAggregate count(*) BY k (Scan s))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT DISTINCT k, window_end, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s"
    >>> query = db.sql(f"{text} GROUP BY k").plan
    >>> [type(each).__name__ for each in drop_needless_distinct(query, Settings()).walk()]
    ['QueryPlan', 'Project', 'WindowAggregate', 'Scan']
    """
    return query if query.revises else rewritten(query, _dropped)


def _dropped(node: Node) -> Node:
    if isinstance(node, Distinct) and not node.input.signed:
        columns = frozenset(Column.of(field) for field in node.schema)
        if any(key <= columns for key in _told_apart_by(node.input)):
            return node.input
    return node


def _told_apart_by(node: Node) -> list[_Columns]:
    """Sets of columns that no two rows agree on."""
    match node:
        case Filter():
            return _told_apart_by(node.input)
        case Project():
            names = {
                each.expression: Column.of(field)
                for each, field in zip(node.columns, node.schema, strict=True)
                if isinstance(each.expression, Column)
            }
            found = _told_apart_by(node.input)
            return [frozenset(names[c] for c in key) for key in found if key <= names.keys()]
        case Distinct():
            return [frozenset(Column.of(field) for field in node.schema)]
        case GroupAggregate():
            return [_first(node, 0, len(node.keys))]
        case WindowAggregate() if not isinstance(node.window, SlideByTuple):
            keys = _first(node, 3, 3 + len(node.keys))
            window = node.window
            endless = isinstance(window, Landmark) or (
                isinstance(window, RowWindow) and window.range is None
            )
            places = (0, 2) if endless else (0, 1, 2)  # all of these begin together
            return [keys | _first(node, place, place + 1) for place in places]
        case DistinctOn() if all(key in node.columns for key in node.keys):
            keys = frozenset(key for key in node.keys if isinstance(key, Column))
            return [keys | _first(node, place, place + 1) for place in range(3)]
    return []


def _first(node: Node, begin: int, end: int) -> _Columns:
    return frozenset(Column.of(field) for field in node.schema.fields[begin:end])
