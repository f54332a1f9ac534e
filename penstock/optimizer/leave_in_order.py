"""EMIT IN ORDER in process: let rows leave the operator that they come from in order, where there
is one that can do it, instead of putting them in order at the end.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.settings import Settings
from penstock.physical.asked import Steps
from penstock.physical.node import OperatorKind, Ordering, PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.physical.sorting import Sorting
from penstock.plan.can_fail import may_fail
from penstock.plan.expressions import Column, Expression
from penstock.plan.stateless import Filter, Project
from penstock.plan.substitution import below


def leave_in_order(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """
    before: Order (Project (Union (Read a, Read b)))
    after:  Project (Merge (Read a, Read b)), because what is merged is in order

    >>> import penstock as ps
    >>> from penstock.optimizer.lower import lower
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
    found = _sorted(given, Column.of(plan.query.progress[0].field), ())
    return plan if found is None else replace(plan, root=found)


def _sorted(node: PhysicalNode, by: Expression, above: Steps) -> PhysicalNode | None:
    """The same with an operator whose rows leave in order; None if there is none."""
    logical = node.logical
    on_the_way = ((logical, 0), *above)
    match node.operator:
        case OperatorKind.FILTER:
            return _over(node, _sorted(node.inputs[0], by, on_the_way))
        case OperatorKind.PROJECT:
            assert isinstance(logical, Project)
            return _over(node, _sorted(node.inputs[0], below(by, logical), on_the_way))
    if may_fail(by) and any(isinstance(step, Filter) for step, _ in above):
        return None  # it would be computed for rows that do not get so far
    sorting = Sorting(by, above)
    match node.operator:
        case OperatorKind.UNION:
            return _leaving(node, OperatorKind.MERGE, sorting)
    return None


def _leaving(node: PhysicalNode, operator: OperatorKind, sorting: Sorting) -> PhysicalNode:
    """Whoever keeps rows in order has all of them in one place."""
    ports = tuple(replace(port, keys=port.keys or ()) for port in node.ports)
    return replace(node, operator=operator, ports=ports, ordering=Ordering.SORTED, sorting=sorting)


def _over(node: PhysicalNode, given: PhysicalNode | None) -> PhysicalNode | None:
    if given is None:
        return None
    (port,) = node.ports
    return replace(node, ports=(replace(port, input=given),))
