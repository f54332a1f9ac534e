"""Let each input of a join drop what its condition says of that input alone."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.logical.removable_rows import (
    filtered,
    is_about,
    only_results,
    results_may_be_removed,
)
from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Expression, all_of, conjuncts
from penstock.plan.nodes.joins import Join, JoinKind
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties.can_fail import may_fail


def split_over_join(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """What a FROM clause says of one relation is below its join when it is bound (see
    `language/binding/relations/join_tree.py`); this is for what has come there from queries around
    it.  Only for inputs that are results: tuples that do not come to the join cannot be found late
    there.

    before: Join ON a.k = b.k AND b.n > 3 (…, WindowAggregate …)
    after:  Join ON a.k = b.k (…, Filter b.n > 3 (WindowAggregate …))

    >>> import penstock as ps
    >>> from penstock.optimizer.logical.filter_below_project import filter_below_project
    >>> from penstock.optimizer.logical.filter_into_join import filter_into_join
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "(SELECT k, window_end, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k)"
    >>> pairs = f"SELECT s.k AS k, c.n AS n FROM s [RANGE 5], {counts} c [RANGE 5, WA window_end]"
    >>> query = db.sql(f"SELECT n FROM ({pairs}) q WHERE n > 3 AND k > 1").plan
    >>> for rule in (filter_below_project, filter_into_join, split_over_join):
    ...     query = rule(query, Settings())
    >>> join = query.input.input.input
    >>> join.details()[0], join.branches[1].details()
    ('Join ON (s.k > 1)', ['Filter (c.n > 3)'])
    """
    return rewritten(query, _split) if results_may_be_removed(query) else query


def _split(node: Node) -> Node:
    if not isinstance(node, Join) or node.kind is not JoinKind.INNER or node.condition is None:
        return node
    if may_fail(node.condition):
        return node
    branches, left = [], list(conjuncts(node.condition))
    for branch in node.branches:
        own: list[Expression] = []
        if only_results(branch):
            own = [each for each in left if is_about(each, branch)]
            left = [each for each in left if each not in own]
        branches.append(filtered(branch, own))
    if len(left) == len(conjuncts(node.condition)):
        return node
    return replace(node, branches=tuple(branches), condition=all_of(left))
