"""Let tuples meet in one place where results are counted that several places have no order for."""

from __future__ import annotations

from dataclasses import replace

from penstock.optimizer.settings import Settings
from penstock.physical.node import PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.nodes.aggregates import Distinct, WindowAggregate
from penstock.plan.nodes.distinct_on import DistinctOn


def count_in_one_place(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """Results of several places have an order of their own in each.  Windows and groups can be
    merged by their keys; pairs of tuples, tuples as they are, and row windows that are filled in
    one partition or another have none.

    before: Rows (Recent, tuples meet by a.k and b.k (Read a, Read b))
    after:  Rows (Recent, all tuples meet in one place (Read a, Read b))

    >>> import penstock as ps
    >>> from penstock.optimizer.physical.lower import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> pairs = "SEQUENCE(a THEN b MODE RECENT ON a.k = b.k)"
    >>> query = db.sql(f"SELECT count(*) AS n [RANGE 3 ROWS, SLIDE 2 ROWS] FROM {pairs}").plan
    >>> plan = count_in_one_place(lower(query, Settings()), Settings())
    >>> [len(port.keys) for node in plan.root.walk() if len(node.ports) == 2 for port in node.ports]
    [0, 0]
    """
    return replace(plan, root=_met(plan.root))


def _met(node: PhysicalNode) -> PhysicalNode:
    ports = tuple(replace(port, input=_met(port.input)) for port in node.ports)
    if node.stateful and node.whole_windows and _no_order_between_places(node):
        ports = tuple(replace(port, keys=()) for port in ports)
    return replace(node, ports=ports) if ports != node.ports else node


def _no_order_between_places(node: PhysicalNode) -> bool:
    match node.logical:
        case WindowAggregate(counted=True) | Distinct() | DistinctOn():
            return True
    return len(node.ports) > 1
