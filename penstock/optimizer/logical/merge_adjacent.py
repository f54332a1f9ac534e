"""Make one filter of two, and one projection of two."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Column, Literal, Named, all_of, columns_of, conjuncts
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter, Project
from penstock.plan.properties.can_fail import may_fail
from penstock.plan.substitution import below


def merge_adjacent(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Both halves of an AND are computed for every tuple, so the later filter must not be one that
    can fail.  A column that is computed once and used twice stays computed once.

    before: Project u + 1 AS v (Project t * 2 AS u (Filter x > 0 (Filter y > 0 (Scan s))))
    after:  Project t * 2 + 1 AS v (Filter y > 0 AND x > 0 (Scan s))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"x": 0.5, "t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT y + 1 AS z FROM (SELECT x * 2 AS y FROM s) q").plan
    >>> print(*merge_adjacent(query, Settings()).input.columns)
    ((s.x * 2.0) + 1.0) AS z
    """
    return rewritten(query, _merged)


def _merged(node: Node) -> Node:
    match node:
        case Filter(input=Filter() as first) if not may_fail(node.predicate):
            said = conjuncts(first.predicate)
            more = [each for each in conjuncts(node.predicate) if each not in said]
            predicate = all_of([*said, *more])
            assert predicate is not None
            return Filter(first.input, predicate)
        case Project(input=Project() as first) if _can_be_inside(first, node):
            columns = tuple(Named(c.name, below(c.expression, first)) for c in node.columns)
            made = replace(node, input=first.input, columns=columns)
            return made if made.progress == node.progress else node
    return node


def _can_be_inside(first: Project, second: Project) -> bool:
    used = Counter(
        (column.name, column.relation)
        for each in second.columns
        for column in columns_of(each.expression)
    )
    return all(
        isinstance(each.expression, Column | Literal)
        or (used[field.name, field.relation] <= 1 and not may_fail(each.expression))
        for each, field in zip(first.columns, first.schema, strict=True)
    )
