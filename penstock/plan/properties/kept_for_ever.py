"""What a running answer keeps more and more of."""

from __future__ import annotations

from penstock.plan.nodes.aggregates import GroupAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.running_join import RunningJoin
from penstock.plan.nodes.running_over import RunningOver


def kept_for_ever(query: Node) -> str:
    """A sentence about it; nothing if nothing is.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> kept_for_ever(db.sql("SELECT k, count(*) AS n FROM s GROUP BY k EMIT CHANGES").plan)
    'all groups are kept for ever; KEEP FOR would let go of them'
    """
    nodes = list(query.walk())
    groups = any(isinstance(node, GroupAggregate) and node.runs and node.keys for node in nodes)
    tuples = any(isinstance(node, RunningJoin) for node in nodes)
    orders = [node for node in nodes if isinstance(node, RunningOver)]
    rows = any(not node.forgets for node in orders)
    first = any(node.forgets and node.partition for node in orders)
    kept = ["groups"] * groups + ["tuples of the join"] * tuples + ["rows of OVER or LIMIT"] * rows
    said = [f"all {' and '.join(kept)} are kept for ever"] if kept else []
    said += ["the first rows of every key are kept for ever"] * first
    remedy = "; KEEP FOR would let go of them" if said and not orders else ""
    return "; ".join(said) + remedy
