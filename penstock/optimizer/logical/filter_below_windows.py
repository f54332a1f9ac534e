"""Leave out groups that a filter drops, before anything is folded for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from penstock.optimizer.logical.removable_rows import filtered, only_results, results_may_be_removed
from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Column, Expression, all_of, columns_of, conjuncts
from penstock.plan.nodes.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter
from penstock.plan.properties.can_fail import aggregate_may_fail, may_fail
from penstock.plan.substitution import substituted
from penstock.windows.rows import Order, RowWindow
from penstock.windows.session import Session
from penstock.windows.sliding import Sliding

_Key: TypeAlias = tuple[str, str | None]


def filter_below_windows(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Only what is said of keys, because all rows of a group agree on those.  Where tuples can be
    late they come to the operator as before; rows that are counted in order of arrival never are,
    so a whole partition of them can be left out.

    before: Filter k = 1 (WindowAggregate max(n) BY k (Project … (WindowAggregate …)))
    after:  WindowAggregate max(n) BY k (Filter k = 1 (Project … (WindowAggregate …)))

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> counts = "SELECT k, count(*) AS n [RANGE 5 ROWS, SLIDE 5 ROWS, PA k] FROM s"
    >>> query = db.sql(f"{counts} GROUP BY k HAVING k = 1 AND count(*) > 2").plan
    >>> [each.details()[0] for each in filter_below_windows(query, Settings()).walk()][2:]
    ['Filter (count(*) > 2)', 'WindowAggregate count(*)', 'Filter (s.k = 1)', 'Scan s']
    """
    return rewritten(query, _moved) if results_may_be_removed(query) else query


def _moved(node: Node) -> Node:
    if not isinstance(node, Filter) or may_fail(node.predicate):
        return node
    keys = _keys(node.input)
    parts = conjuncts(node.predicate)
    passing = [each for each in parts if _is_about(each, keys)]
    if not passing:
        return node

    def own(column: Column) -> Expression:
        return keys[column.name, column.relation]

    (given,) = node.input.inputs
    below = filtered(given, [substituted(each, own) for each in passing])
    made = _over(node.input, below)
    above = all_of([each for each in parts if each not in passing])
    return made if above is None else Filter(made, above)


def _is_about(predicate: Expression, keys: dict[_Key, Expression]) -> bool:
    found = {(column.name, column.relation) for column in columns_of(predicate)}
    return bool(found) and found <= keys.keys()


def _over(node: Node, given: Node) -> Node:
    change: Callable[..., Node] = replace
    return change(node, input=given)


def _keys(node: Node) -> dict[_Key, Expression]:
    """The columns that come out of an operator for which rows can be dropped before it, and what
    they are there; none if there are no such."""
    match node:
        case Distinct() if only_results(node.input):
            return {(field.name, field.relation): Column.of(field) for field in node.schema}
        case DistinctOn() if only_results(node.input):
            keys = [key for key in node.keys if isinstance(key, Column) and key in node.columns]
            return {(key.name, key.relation): key for key in keys}
        case WindowAggregate() | GroupAggregate() if _can_fail(node):
            return {}
        case GroupAggregate() if only_results(node.input):
            return {(key.name, None): key.expression for key in node.keys}
        case WindowAggregate(window=Sliding() | Session()) if only_results(node.input):
            return {(key.name, None): key.expression for key in node.keys}
        case WindowAggregate(window=RowWindow(order=Order.ARRIVAL)) if not node.input.signed:
            return {(part.name, None): part.expression for part in node.partition}
    return {}


def _can_fail(node: WindowAggregate | GroupAggregate) -> bool:
    """Groups that are left out must not have been an error."""
    keys = any(may_fail(key.expression) for key in node.keys)
    return keys or any(aggregate_may_fail(each.call) for each in node.aggregates)
