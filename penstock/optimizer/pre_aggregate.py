"""Fold tuples into panes before they are sent to where they meet, so that less is sent and kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.operators.aggregates.build import build
from penstock.optimizer.settings import Settings
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.aggregates import WindowAggregate
from penstock.plan.query import Late
from penstock.plan.stateless import Scan


def pre_aggregate(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """
    before: Paned, tuples meet by s.k (Read s)
    after:  Paned, tuples meet by s.k, folded into panes before (Read s)

    Late tuples that somebody asks for have to come as they are, an aggregate that keeps its tuples
    gains nothing, and where single groups are punctuated, panes would have to be apart for each.

    >>> import penstock as ps
    >>> from penstock.optimizer.lower import lower
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> def folded(aggregate):
    ...     text = f"SELECT {aggregate} AS x [RANGE 9, SLIDE 9, WA t] FROM s GROUP BY k"
    ...     plan = pre_aggregate(lower(db.sql(text).plan, Settings()), Settings())
    ...     return [port.pre_aggregated for node in plan.root.walk() for port in node.ports]
    >>> folded("count(*)"), folded("median(k)")
    ([False, True], [False, False])
    """
    if plan.query.late is not Late.DROP:
        return plan
    return replace(plan, root=_folded(plan.root))


def _folded(node: PhysicalNode) -> PhysicalNode:
    gains = _gains(node)
    ports = tuple(
        replace(port, input=_folded(port.input), pre_aggregated=gains and _is_read(port.input))
        for port in node.ports
    )
    return replace(node, ports=ports) if ports != node.ports else node


def _gains(node: PhysicalNode) -> bool:
    return (
        node.operator is OperatorKind.PANED
        and isinstance(node.logical, WindowAggregate)
        and not any(build(each.call).holistic for each in node.logical.aggregates)
    )


def _is_read(node: PhysicalNode) -> bool:
    """Whether tuples come from sources: results of other operators are few already."""
    found = list(_reads(node))
    return bool(found) and all(found)


def _reads(node: PhysicalNode) -> Iterator[bool]:
    if isinstance(node.logical, Scan):
        progress = node.logical.stream.progress
        yield progress is None or progress.group_punctuation is None
    elif not node.stateful:
        for each in node.inputs:
            yield from _reads(each)
