"""Leave out the operator that puts rows in order where they leave in order by themselves.

On Spark, that operator is a stage of its own, of one bucket.  Rows of one micro-batch are sorted
when they are handed over, so what matters is only that no later one belongs before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.optimizer.settings import Settings
from penstock.physical.node import OperatorKind, Ordering, PhysicalNode
from penstock.physical.plan import PhysicalPlan


def drop_needless_order(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """
    before: Order (Project (Paned (Read s)))
    after:  Project (Paned (Read s)), because windows close one after the other

    >>> import penstock as ps
    >>> from penstock.optimizer.physical.lower import lower
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT count(*) AS n [RANGE 9, SLIDE 9, WA t] FROM s EMIT IN ORDER"
    >>> before = lower(db.sql(text).plan, Settings())
    >>> after = drop_needless_order(before, Settings())
    >>> before.root.operator.value, after.root.operator.value
    ('Order', 'Project')
    """
    if plan.root.operator is not OperatorKind.ORDER:
        return plan
    below = plan.root.ports[0].input
    return replace(plan, root=below) if _leaves_in_order(below, plan.query.revises) else plan


def _leaves_in_order(root: PhysicalNode, revises: bool) -> bool:
    """Windows and groups close one after the other and are never late, but those of two operators
    are not told apart.  What is revised has no order."""
    last = list(_last_to_keep_tuples(root))
    if any(node is None for node in last):
        return False
    if revises:
        return True
    (*others, node) = last
    return not others and node is not None and node.ordering is Ordering.CLOSING


def _last_to_keep_tuples(node: PhysicalNode) -> Iterator[PhysicalNode | None]:
    """The stateful operators that rows come from last; None for rows that come from none."""
    if node.stateful:
        yield node
    elif not node.ports:
        yield None
    else:
        for each in node.inputs:
            yield from _last_to_keep_tuples(each)
