"""Find the columns that come to a join and that nobody looks at: it need not keep their values, nor
copy them into every pair."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from penstock.model.types import Kind
from penstock.optimizer.logical.columns_needed import ColumnsNeeded, Needed
from penstock.optimizer.settings import Settings
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import Late
from penstock.plan.nodes.stateless import Scan

_NARROW = (Kind.BOOLEAN, Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DATE, Kind.TIMESTAMP)
_JOINS = (OperatorKind.OA_JOIN, OperatorKind.RUNNING_JOIN)
_ByNode: TypeAlias = dict[int, tuple[tuple[int, ...], ...]]


def find_unseen(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """Only texts and the like: a number costs less than to leave it out.  Nothing is left out where
    late tuples are asked for, which come with all of their columns, where groups are told apart by
    what streams promise, and of what several ask for.

    before: Project a.id (OaJoin (Read a(id, t, note), Read b(id, t, note)))
    after:  the same, where the join keeps no note

    >>> import penstock as ps
    >>> from penstock.optimizer.physical.lower import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"id": 3, "t": 4, "note": "x"}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT a.id, b.note FROM a [RANGE 5], b [RANGE 5] WHERE a.id = b.id"
    >>> plan = find_unseen(lower(db.sql(text).plan, Settings()), Settings())
    >>> [node.unseen for node in plan.root.walk() if node.unseen]
    [((2,), ())]
    """
    query = plan.query
    if query.late is not Late.DROP or plan.shared or any(map(_tells_groups, query.walk())):
        return plan
    finder = _Finder()
    finder.below(plan.root.logical, None)
    return replace(plan, root=_noted(plan.root, finder.found))


class _Finder(ColumnsNeeded):
    def __init__(self) -> None:
        self.found: _ByNode = {}

    def joined(self, join: Node, inputs: list[tuple[Node, Needed]]) -> list[Node]:
        if not (join.signed or join.takes_back):  # where all values count
            self.found[id(join)] = tuple(_unseen(*each) for each in inputs)
        return super().joined(join, inputs)


def _unseen(node: Node, needed: Needed) -> tuple[int, ...]:
    if needed is None:
        return ()
    return tuple(
        place
        for place, field in enumerate(node.schema)
        if (field.relation, field.name) not in needed and field.type.kind not in _NARROW
    )


def _tells_groups(node: Node) -> bool:
    promised = node.stream.progress if isinstance(node, Scan) else None
    return promised is not None and promised.group_punctuation is not None


def _noted(node: PhysicalNode, found: _ByNode) -> PhysicalNode:
    ports = tuple(replace(port, input=_noted(port.input, found)) for port in node.ports)
    unseen = found.get(id(node.logical), ()) if node.operator in _JOINS else ()
    return replace(node, ports=ports, unseen=unseen if any(unseen) else ())
