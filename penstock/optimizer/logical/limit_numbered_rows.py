"""Keep only so many rows of a partition as a filter on their numbers lets pass."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Call, Column, Expression, Literal, conjuncts
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.over import Over
from penstock.plan.nodes.over_calls import Numbering
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.rows_over import RowsOver
from penstock.plan.nodes.stateless import Filter
from penstock.plan.properties.can_fail import may_fail

_TURNED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt", "eq": "eq"}


def limit_numbered_rows(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """What row_number, rank and dense_rank say of a row depends on those before it alone, so rows
    beyond the limit can go before their partition is complete.  Not if the filter says anything
    else that can fail: it is asked of those rows, too.

    before: Filter (n <= 3) (Over row_number() AS n)
    after:  Filter (n <= 3) (Over row_number() AS n, rows with it up to 3)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"x": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT x FROM s QUALIFY row_number() OVER (PARTITION BY t ORDER BY x) <= 3"
    >>> limit_numbered_rows(db.sql(text).plan, Settings()).input.input.input.most
    (0, 3)
    """
    return rewritten(query, _limited)


def _limited(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, RowsOver):
        return node
    if may_fail(node.predicate):
        return node
    over = node.input
    numbered = all(isinstance(each.call, Numbering) for each in over.calls)
    in_time = isinstance(over, Over) and over.completing is None
    if not numbered or over.most is not None or in_time:
        return node
    limits = [_limit(each, over) for each in conjuncts(node.predicate)]
    found = min(
        (each for each in limits if each is not None), key=lambda each: each[1], default=None
    )
    return node if found is None else replace(node, input=replace(over, most=found))


def _limit(predicate: Expression, over: RowsOver) -> tuple[int, int] | None:
    """The call that a predicate limits, and the highest number that it lets pass."""
    if not isinstance(predicate, Call) or predicate.function not in _TURNED:
        return None
    left, right = predicate.arguments
    function = predicate.function
    if isinstance(left, Literal):
        left, right, function = right, left, _TURNED[function]
    if not isinstance(left, Column) or left.relation is not None or function in ("ge", "gt"):
        return None
    if not isinstance(right, Literal) or not right.type.is_integer or right.value is None:
        return None
    for place, each in enumerate(over.calls):
        if each.name == left.name:
            return place, int(right.value) - (function == "lt")
    return None
