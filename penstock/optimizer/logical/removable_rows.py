"""Where rows can be taken away sooner than a query says, without anybody noticing.

A tuple that is dropped before it comes to an operator cannot be found late there, and late tuples
are counted and shown.  So filters pass windows, groups and joins only where results come to these:
results are never late.  Landmark windows go on to where their input has come, which also goes by
results that a filter above would drop; and where results are revised, what was given out and taken
back on the way would change.
"""

from __future__ import annotations

from penstock.plan.expressions import Expression, all_of, columns_of, conjuncts
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter
from penstock.plan.properties.can_fail import may_fail
from penstock.plan.properties.late_columns import has_tuples
from penstock.windows.landmark import Landmark


def results_may_be_removed(query: QueryPlan) -> bool:
    """Whether filters may pass operators that keep something, as far as the whole query goes."""
    return not query.revises and not any(
        isinstance(node, WindowAggregate) and isinstance(node.window, Landmark)
        for node in query.walk()
    )


def only_results(node: Node) -> bool:
    """Whether nothing that comes out of a node can be late, or be taken back."""
    return not node.signed and not has_tuples(node)


def is_about(predicate: Expression, node: Node) -> bool:
    """Whether a predicate looks at columns, all of them of a node."""
    known = {(field.name, field.relation) for field in node.schema}
    found = {(column.name, column.relation) for column in columns_of(predicate)}
    return bool(found) and found <= known


def filtered(node: Node, predicates: list[Expression]) -> Node:
    """The rows of a node for which all predicates hold, by one filter."""
    if isinstance(node, Filter) and not any(map(may_fail, predicates)):
        said = conjuncts(node.predicate)
        new = [each for each in predicates if each not in said]
        if not new:
            return node
        predicate = all_of([*said, *new])
        assert predicate is not None
        return Filter(node.input, predicate)
    found = all_of(predicates)
    return node if found is None else Filter(node, found)
