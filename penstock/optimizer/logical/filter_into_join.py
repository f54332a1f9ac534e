"""Ask of pairs what they are asked afterwards, when they are made."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.logical.removable_rows import is_about
from penstock.optimizer.rewrite import rewritten
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Expression, all_of, conjuncts
from penstock.plan.nodes.joins import Join, JoinKind
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter
from penstock.plan.properties.can_fail import may_fail


def filter_into_join(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """A condition of the join takes no tuple away before it comes there, so the same ones are late;
    and columns that have to be equal are looked up.  Not for joins that keep tuples without a
    partner: there, a condition decides who is one.  What can fail is asked of what it was asked of.
    Tuples are dropped before they are looked up in a table, where nothing is late.

    before: Filter a.k = b.j (Join (Scan a, Scan b))
    after:  Join ON a.k = b.j (Scan a, Scan b)

    >>> import penstock as ps
    >>> from penstock.optimizer.logical.filter_below_project import filter_below_project
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"k": 3, "t": 4}], progress=ps.progress("t", delay=5))
    >>> pairs = "SELECT a.k AS k, b.k AS j FROM a [RANGE 5], b [RANGE 5]"
    >>> query = db.sql(f"SELECT k FROM ({pairs}) q WHERE k = j").plan
    >>> for rule in (filter_below_project, filter_into_join):
    ...     query = rule(query, Settings())
    >>> query.input.input.input.details()[0]
    'Join ON (a.k = b.k)'
    """
    return rewritten(query, _moved)


def _moved(node: Node) -> Node:
    if not isinstance(node, Filter) or may_fail(node.predicate):
        return node
    given = node.input
    if not isinstance(given, Join | Lookup) or _fails(given.condition):
        return node
    if isinstance(given, Lookup):
        return _into_lookup(node, given)
    if given.kind is not JoinKind.INNER or given.signed:
        return node
    return replace(given, condition=_all(given.condition, list(conjuncts(node.predicate))))


def _into_lookup(node: Filter, lookup: Lookup) -> Node:
    parts = conjuncts(node.predicate)
    first = [each for each in parts if is_about(each, lookup.input)]
    others = [each for each in parts if each not in first]
    below = all_of(first)
    made = lookup if below is None else replace(lookup, input=_moved(Filter(lookup.input, below)))
    if others and lookup.kind is JoinKind.INNER:
        return replace(made, condition=_all(made.condition, others))
    above = all_of(others)
    if below is None:
        return node
    return made if above is None else Filter(made, above)


def _fails(condition: Expression | None) -> bool:
    return condition is not None and may_fail(condition)


def _all(condition: Expression | None, more: list[Expression]) -> Expression | None:
    said = [] if condition is None else list(conjuncts(condition))
    return all_of([*said, *(each for each in more if each not in said)])
