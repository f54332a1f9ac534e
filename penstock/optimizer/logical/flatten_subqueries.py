"""Aggregate the rows of a sub-query as they are, without giving its columns new names first."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.logical.removable_rows import only_results
from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Column, Expression, Named
from penstock.plan.nodes.aggregates import GroupAggregate, NamedAggregate, WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Project
from penstock.plan.substitution import below


def flatten_subqueries(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """A projection below an aggregation that only picks columns and names them is left out.  Not
    one that computes something: first and last go by the column that a key rises with, and that
    would be another one.  And not where tuples can be late, because these have its columns.

    before: GroupAggregate max(q.n) BY q.e (Project window_end AS e, n AS n (WindowAggregate …))
    after:  GroupAggregate max(n) BY window_end (WindowAggregate …)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "SELECT k, window_end AS e, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s"
    >>> text = f"SELECT e, max(n) AS m FROM ({counts} GROUP BY k) q GROUP BY e"
    >>> node = flatten_subqueries(db.sql(text).plan, Settings()).input.input
    >>> print(*node.details(), node.input.details()[0], sep="; ")
    GroupAggregate max(count(*)) AS max(q.n); group by: window_end AS q.e; WindowAggregate count(*)
    """
    return rewritten(query, _flat)


def _flat(node: Node) -> Node:
    if not isinstance(node, WindowAggregate | GroupAggregate) or node.input.signed:
        return node
    made = node
    while isinstance(made.input, Project) and _only_names(made.input) and only_results(made.input):
        made = _over(made, made.input)
    return made if made.progress == node.progress else node


def _only_names(project: Project) -> bool:
    return all(isinstance(each.expression, Column) for each in project.columns)


def _over(
    node: WindowAggregate | GroupAggregate, project: Project
) -> WindowAggregate | GroupAggregate:
    def down(expression: Expression) -> Expression:
        return below(expression, project)

    keys = tuple(Named(each.name, down(each.expression)) for each in node.keys)
    aggregates = tuple(_aggregate(each, project) for each in node.aggregates)
    if isinstance(node, GroupAggregate):
        return replace(node, input=project.input, keys=keys, aggregates=aggregates)
    return replace(
        node,
        input=project.input,
        keys=keys,
        aggregates=aggregates,
        attribute=None if node.attribute is None else down(node.attribute),
        partition=tuple(Named(each.name, down(each.expression)) for each in node.partition),
    )


def _aggregate(each: NamedAggregate, project: Project) -> NamedAggregate:
    call = each.call
    arguments = tuple(below(argument, project) for argument in call.arguments)
    where = None if call.where is None else below(call.where, project)
    return replace(each, call=replace(call, arguments=arguments, where=where))
