"""Make a pipeline of joins with two inputs of a join with more.

Each pair of inputs has to fit in time.  A later join looks tuples up by the tightest of its time
conditions, and only checks the others.  Where conditions of the query bound two inputs through a
third, what follows for the two is a condition, too: so all times go on progressing.
"""

from __future__ import annotations

from penstock.model.schema import Schema
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.plan.algorithms import JoinAlgorithm
from penstock.plan.expressions import Column, Expression, all_of, columns_of
from penstock.plan.nodes.aggregates import GroupAggregate, WindowAggregate
from penstock.plan.nodes.joins import Join, TimeCondition, by_risk, equal_keys
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Filter, Project
from penstock.plan.properties.pairwise_windows import (
    between,
    conditions_across,
    width,
    window_of_two,
)

# hints for joins whose results leave in the order of the time of their first input
IN_ORDER_OF_ONE = (JoinAlgorithm.OPOB, JoinAlgorithm.OPIB)


def binary_joins(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Inputs with equal keys are joined first.  Where what stands above goes by the places of
    columns, they are joined as they were written; and where pairs may be taken back, because which
    one is left goes by the order of the inputs.

    before: Join ON a.k = c.k AND b.j = c.j (Scan a, Scan b, Scan c)
    after:  Join ON b.j = c.j (Join ON a.k = c.k (Scan a, Scan c), Scan b)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name in "abc":
    ...     db.stream(name, [{"j": 1, "k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> windows = "a [RANGE 9], b [RANGE 5], c [RANGE 7]"
    >>> text = f"SELECT a.j FROM {windows} WHERE a.k = c.k AND b.j = c.j"
    >>> top = binary_joins(db.sql(text).plan, Settings()).input.input
    >>> for join in (top, top.branches[0]):
    ...     print(join.condition, *join.details()[1:], sep="; ")
    (b.j = c.j); window: [RANGE 7, WA c.t]; window: [RANGE 5, WA b.t]; also: -5 <= b.t - a.t <= 9
    (a.k = c.k); window: [RANGE 9, WA a.t]; window: [RANGE 7, WA c.t]
    """
    return with_inputs(query, lambda node: _binary(node, by_name=False))


def _binary(node: Node, by_name: bool) -> Node:
    """`by_name` says whether what stands above does not look at the places of columns."""
    below = looks_at_names(node, by_name)
    node = with_inputs(node, lambda each: _binary(each, below))
    if not isinstance(node, Join) or len(node.branches) == 2 or node.tree is not None:
        return node
    may_move = by_name and not node.signed
    first = 0 if node.hint in IN_ORDER_OF_ONE else None
    order = connected(node, first) if may_move else list(range(len(node.branches)))
    return _pipeline(node, order)


def looks_at_names(node: Node, by_name: bool) -> bool:
    """Whether a node finds the columns of its input by their names."""
    match node:
        case Project() | WindowAggregate() | GroupAggregate():
            return True
        case Filter() | Join() | Lookup():
            return by_name
    return False


def connected(node: Join, start: int | None = None) -> list[int]:
    """Beginning with the first input that has equal keys with another: whenever it can be, one that
    has equal keys with those before it."""
    left = list(range(len(node.branches)))
    if start is None:
        start = next((i for i in left if any(_equal(node, [i], j) for j in left if j != i)), 0)
    order = [start]
    left.remove(start)
    while left:
        found = next((each for each in left if _equal(node, order, each)), left[0])
        order.append(found)
        left.remove(found)
    return order


def _equal(node: Join, some: list[int], other: int) -> bool:
    before = Schema(tuple(field for each in some for field in node.branches[each].schema))
    keys, _ = equal_keys(before, node.branches[other].schema, node.condition)
    return bool(keys)


def _pipeline(node: Join, order: list[int]) -> Join:
    safe, risky = by_risk(node.condition)
    made: Node = node.branches[order[0]]
    waiting: list[Expression] = safe
    for place, new in enumerate(order[1:], 1):
        before, last = order[:place], place == len(order) - 1
        windows = {each: between(node, each, new) for each in before}
        first = min(before, key=lambda each: width(windows[each]))
        if node.hint in IN_ORDER_OF_ONE:
            first = order[0]  # all results are in the order of the first input
        attribute = node.attributes[new]
        also = tuple(
            TimeCondition(node.attributes[each], attribute, windows[each])
            for each in before
            if each != first
        )
        known = {(f.name, f.relation) for each in (made, node.branches[new]) for f in each.schema}
        ready = [each for each in waiting if last or _known(each, known)]
        waiting = [each for each in waiting if each not in ready]
        made = Join(
            (made, node.branches[new]),
            (node.attributes[first], attribute),
            window_of_two(windows[first]),
            all_of([*ready, *(risky if last else [])]),
            node.span,
            also=(*also, *conditions_across(node, before, [new])),
            late_by=_late_by(node, order[:place], first, new),
            hint=node.hint,
        )
    assert isinstance(made, Join)
    return made


def _late_by(node: Join, before: list[int], first: int, new: int) -> tuple[tuple[Column, ...], ...]:
    """Tuples of the inputs of the query are late where they come in; results never are."""
    if not node.late_by:
        return ()
    own = node.late_by[first] if len(before) == 1 else (node.attributes[first],)
    return (own, node.late_by[new])


def _known(condition: Expression, known: set[tuple[str, str | None]]) -> bool:
    return all((each.name, each.relation) in known for each in columns_of(condition))
