"""What the parts of an answer are called that wait or are missed: windows are not all there is."""

from __future__ import annotations

from penstock.plan.nodes.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.rows_over import RowsOver
from penstock.plan.nodes.sequence import Sequence


def has_windows(query: Node) -> bool:
    """Whether tuples may be late for windows."""
    return any(isinstance(node, WindowAggregate | DistinctOn | Join) for node in query.walk())


def what_waits(query: Node) -> str:
    """What is counted as open.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> what_waits(db.sql("SELECT k, row_number() OVER (ORDER BY t) AS n FROM s").plan)
    'row'
    """
    found = {word for node in query.walk() if (word := _of(node))}
    return found.pop() if len(found) == 1 else "result"


def _of(node: Node) -> str | None:
    match node:
        case WindowAggregate() | DistinctOn():
            return "window"
        case GroupAggregate() | Distinct():
            return "group"
        case RowsOver() | Sequence() | Difference():
            return "row"
        case Join() if any(node.kind.keeps):
            return "row"
    return None
