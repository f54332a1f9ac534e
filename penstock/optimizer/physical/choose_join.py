"""The rule that says how joins of two streams are computed: as a hint asks, or by cost."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import EngineError
from penstock.optimizer.dataflow.join_algorithms import choose
from penstock.optimizer.settings import Settings
from penstock.physical.host import Host
from penstock.physical.node import OperatorKind, Ordering, PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.physical.sorting import Sorting
from penstock.plan.algorithms import JoinAlgorithm
from penstock.plan.nodes.joins import Join, JoinKind
from penstock.plan.properties.result_order import latest_of, latest_of_all

# Those whose results leave in order: by the time of one input, or by the later of both.
BY_ONE = {
    JoinAlgorithm.OPOB: OperatorKind.OPOB_JOIN,
    JoinAlgorithm.OPIB: OperatorKind.OPIB_JOIN,
}
BY_BOTH = {
    JoinAlgorithm.SYNC_FILTER: OperatorKind.SYNC_FILTER,
    JoinAlgorithm.FILTER_ORDER: OperatorKind.FILTER_ORDER,
    JoinAlgorithm.ADAPTIVE_JOIN: OperatorKind.ADAPTIVE_JOIN,
}


def choose_join(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:
    """
    before: OaJoin of a and b, with the hint SYNC_FILTER
    after:  SyncFilter, whose results are sorted by greatest(a.t, b.t)

    before: OaJoin (OaJoin of a and b) and c, with the hint SYNC_FILTER
    after:  SyncFilter (SyncFilter …), sorted by greatest(a.t, b.t, c.t)

    Without a hint, results leave as they are found; `leave_in_order` chooses another algorithm in
    process where an order is wanted.  On Spark, results are sorted in the bucket that they come
    from, and nowhere else.  What each algorithm would take is noted for EXPLAIN.
    """

    def change(node: PhysicalNode) -> PhysicalNode:
        ports = tuple(replace(port, input=change(port.input)) for port in node.ports)
        changed = replace(node, ports=ports)
        join = node.logical
        if node.operator is not OperatorKind.OA_JOIN or not isinstance(join, Join):
            return changed
        if join.hint in (None, JoinAlgorithm.OA, JoinAlgorithm.MULTIWAY):
            return with_choice(changed, (), settings) if can_leave_in_order(node) else changed
        if not can_leave_in_order(node):
            raise EngineError(
                f"{join.hint.name} joins two streams at a time, and gives neither tuples without a "
                "partner nor amended or early results",
                span=join.span,
                expected="an INNER join of tuples that stay, without LATE AMEND and EMIT EARLY",
                hint="leave the hint out",
            )
        if join.hint in BY_ONE:
            return sorted_join(changed, BY_ONE[join.hint], (0,), settings)
        made = sorted_join(changed, BY_BOTH[join.hint], (0, 1), settings)
        return replace(made, sorting=Sorting(latest_of_all(join)))

    return replace(plan, root=change(plan.root))


def can_leave_in_order(node: PhysicalNode) -> bool:
    """Whether another join than the OA-Join can give the results."""
    join = node.logical
    return (
        isinstance(join, Join)
        and join.kind is JoinKind.INNER
        and len(join.branches) == 2
        and not join.signed
        and node.asked is None
    )


def sorted_join(
    node: PhysicalNode, operator: OperatorKind, ports: tuple[int, ...], settings: Settings
) -> PhysicalNode:
    """The node with a join whose results are in the order of the latest of some inputs' times."""
    assert isinstance(node.logical, Join)
    made = replace(
        node,
        operator=operator,
        ordering=Ordering.SORTED,
        sorting=Sorting(latest_of(node.logical, ports)),
        alpha=settings.alpha if operator is OperatorKind.ADAPTIVE_JOIN else None,
    )
    return with_choice(made, ports, settings)


def with_choice(node: PhysicalNode, ports: tuple[int, ...], settings: Settings) -> PhysicalNode:
    """The node with what all algorithms would take, in process."""
    if settings.host is not Host.LOCAL:
        return node
    assert isinstance(node.logical, Join)
    return replace(node, join_choice=choose(node.logical, ports, settings))
