"""Look at tuples before columns are computed for them."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter, Project
from penstock.plan.properties.can_fail import may_fail
from penstock.plan.substitution import below


def filter_below_project(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Not where one of the columns can fail: tuples that the filter drops have failed as well.

    before: Filter q.y > 3 (Project x * 2 AS y (Scan s))
    after:  Project x * 2 AS y (Filter x * 2 > 3 (Scan s))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"x": 0.5, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT y FROM (SELECT x * 2 AS y FROM s) q WHERE y > 3").plan
    >>> node = filter_below_project(query, Settings()).input
    >>> while node.inputs:
    ...     print(node.details()[0])
    ...     (node,) = node.inputs
    Project q.y AS y
    Project (s.x * 2.0) AS y
    Filter ((s.x * 2.0) > 3.0)
    """
    return rewritten(query, _moved)


def _moved(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, Project):
        return node
    project = node.input
    if any(may_fail(column.expression) for column in project.columns):
        return node
    passed = _moved(Filter(project.input, below(node.predicate, project)))
    return replace(project, input=passed)
