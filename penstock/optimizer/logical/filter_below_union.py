"""Look at tuples before they are united with others."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter, Union
from penstock.plan.substitution import substituted


def filter_below_union(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Columns of a union go by their places, so each input has the names of its own.

    before: Filter u.x > 3 (Union AS u (Scan a, Scan b))
    after:  Union AS u (Filter a.x > 3 (Scan a), Filter b.x > 3 (Scan b))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"x": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT x FROM a UNION b AS u WHERE x > 3").plan
    >>> union = filter_below_union(query, Settings()).input.input
    >>> [branch.details()[0] for branch in union.branches]
    ['Filter (a.x > 3)', 'Filter (b.x > 3)']
    """
    return rewritten(query, _moved)


def _moved(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, Union):
        return node
    union = node.input
    branches = [
        _moved(Filter(branch, _over(node.predicate, union, branch))) for branch in union.branches
    ]
    return replace(union, branches=tuple(branches))


def _over(predicate: Expression, union: Union, branch: Node) -> Expression:
    def own(column: Column) -> Expression:
        return Column.of(branch.schema.fields[column.position(union.schema)], column.span)

    return substituted(predicate, own)
