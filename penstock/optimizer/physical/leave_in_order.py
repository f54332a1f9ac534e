"""EMIT IN ORDER in process: let rows leave the operator that they come from in order, where there
is one that can do it, instead of putting them in order at the end.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.dataflow.join_algorithms import choose
from penstock.optimizer.physical.choose_join import BY_BOTH, BY_ONE, can_leave_in_order, sorted_join
from penstock.optimizer.settings import Settings
from penstock.physical.asked import Steps
from penstock.physical.node import OperatorKind, Ordering, PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.physical.sorting import Sorting
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.stateless import Filter, Project
from penstock.plan.properties.can_fail import may_fail
from penstock.plan.properties.result_order import by_ports
from penstock.plan.substitution import below


def leave_in_order(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:
    """
    before: Order (Project (Union (Read a, Read b)))
    after:  Project (Merge (Read a, Read b)), because what is merged is in order

    before: Order (Project a.t (OaJoin (Read a, Read b)))
    after:  Project a.t (OpibJoin, sorted by a.t (Read a, Read b))

    >>> import penstock as ps
    >>> from penstock.optimizer.physical.lower import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT k, t FROM a UNION ALL SELECT k, t FROM b EMIT IN ORDER"
    >>> before = lower(db.sql(text).plan, Settings())
    >>> after = leave_in_order(before, Settings())
    >>> [plan.root.operator.value for plan in (before, after)]
    ['Order', 'Merge']
    """
    root = plan.root
    if root.operator is not OperatorKind.ORDER or root.asked is not None:
        return plan
    (given,) = root.inputs
    found = _sorted(given, Column.of(plan.query.progress[0].field), (), settings)
    return plan if found is None else replace(plan, root=found)


def _sorted(
    node: PhysicalNode, by: Expression, above: Steps, settings: Settings
) -> PhysicalNode | None:
    """The same with an operator whose rows leave in order; None if there is none."""
    logical = node.logical
    on_the_way = ((logical, 0), *above)
    match node.operator:
        case OperatorKind.FILTER:
            return _over(node, _sorted(node.inputs[0], by, on_the_way, settings))
        case OperatorKind.PROJECT:
            assert isinstance(logical, Project)
            given = below(by, logical)
            return _over(node, _sorted(node.inputs[0], given, on_the_way, settings))
        case OperatorKind.UNION:
            return _merged(node, by, above)
    return _joined(node, by, settings) if can_leave_in_order(node) else None


def _merged(node: PhysicalNode, by: Expression, above: Steps) -> PhysicalNode | None:
    """Rows of all inputs wait in one place; Merge knows none that take others back."""
    if node.logical.signed:
        return None
    if may_fail(by) and any(isinstance(step, Filter) for step, _ in above):
        return None  # it would be computed for rows that do not get so far
    return replace(
        node,
        operator=OperatorKind.MERGE,
        ports=tuple(replace(port, keys=()) for port in node.ports),
        ordering=Ordering.SORTED,
        sorting=Sorting(by, above),
    )


def _joined(node: PhysicalNode, by: Expression, settings: Settings) -> PhysicalNode | None:
    """Without a hint, it is the one that should take least; where little is known, tuples wait
    rather than results, because a tuple may have many partners, and by the times of both inputs,
    the join sees for itself which is better."""
    assert isinstance(node.logical, Join)
    ports, hint = by_ports(node.logical, by), node.logical.hint
    if ports is None:
        return None
    known = BY_ONE if len(ports) == 1 else BY_BOTH
    if hint is not None:
        return sorted_join(node, known[hint], ports, settings) if hint in known else None
    return sorted_join(
        node, known[choose(node.logical, ports, settings).algorithm], ports, settings
    )


def _over(node: PhysicalNode, given: PhysicalNode | None) -> PhysicalNode | None:
    if given is None:
        return None
    (port,) = node.ports
    return replace(node, ports=(replace(port, input=given),))
