"""Put keys and aggregates in an order that does not depend on how a query is written.

Saved state is by the place of a key and of an aggregate.  With this rule, SELECT may list its
columns in another order, and under other names, and still go on from the same state.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Column, Named
from penstock.plan.identity.expression_texts import aggregate_text, expression_text
from penstock.plan.identity.identity import origins
from penstock.plan.nodes.aggregates import GroupAggregate, NamedAggregate, WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter, Project


def canonical_order(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """What stands above goes by names; where it goes by places, a Project brings the columns back
    to theirs.

    before: Project n, total (WindowAggregate sum(x) AS total, count(*) AS n BY s.k, s.j)
    after:  Project n, total (WindowAggregate count(*) AS n, sum(x) AS total BY s.j, s.k)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"j": 1, "k": 2, "x": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT sum(x) AS total, count(*) AS n [RANGE 9, SLIDE 9, WA t] FROM s GROUP BY k, j"
    >>> node = canonical_order(db.sql(text).plan, Settings()).input.input
    >>> [key.name for key in node.keys], [each.name for each in node.aggregates]
    (['s.j', 's.k'], ['count(*)', 'sum(s.x)'])
    """
    return with_inputs(query, lambda node: _ordered(node, by_name=False))


def _ordered(node: Node, by_name: bool) -> Node:
    """`by_name` says whether what stands above does not look at the places of columns."""
    below = _looks_at_names(node, by_name)
    node = with_inputs(node, lambda each: _ordered(each, below))
    if not isinstance(node, WindowAggregate | GroupAggregate):
        return node
    order = _order_of_keys(node)
    keys = tuple(node.keys[place] for place in order)
    moved = {place: position for position, place in enumerate(order)}
    written = tuple(moved[place] for place in node.key_order)
    ordered = replace(node, keys=keys, aggregates=_aggregates(node), written=written)
    if isinstance(node, WindowAggregate) and isinstance(ordered, WindowAggregate):
        parts = {key.name for key in node.partition}
        ordered = replace(ordered, partition=tuple(k for k in ordered.keys if k.name in parts))
    if ordered == node:
        return node
    if by_name:
        return ordered
    return Project(ordered, tuple(Named(each.name, Column.of(each)) for each in node.schema))


def _looks_at_names(node: Node, by_name: bool) -> bool:
    match node:
        case Project() | WindowAggregate() | GroupAggregate():
            return True
        case Filter():
            return by_name
    return False


def _order_of_keys(node: WindowAggregate | GroupAggregate) -> list[int]:
    places = list(range(len(node.keys)))
    # first and last go by the first key that progresses, so several of those keep their order
    if isinstance(node, GroupAggregate) and len(node.progress) > 1:
        return places
    columns = origins(node.input)
    texts = [expression_text(key.expression, columns) for key in node.keys]
    return sorted(places, key=texts.__getitem__)


def _aggregates(node: WindowAggregate | GroupAggregate) -> tuple[NamedAggregate, ...]:
    columns = origins(node.input)
    return tuple(sorted(node.aggregates, key=lambda each: aggregate_text(each.call, columns)))
