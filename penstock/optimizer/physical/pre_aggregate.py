"""Fold tuples into panes before they are sent to where they meet, so that less is sent and kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.operators.aggregates.build import build
from penstock.optimizer.settings import Settings
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.query import Late
from penstock.plan.nodes.sequence import Sequence
from penstock.plan.nodes.stateless import Scan


def pre_aggregate(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """
    before: Paned, tuples meet by s.k (Read s)
    after:  Paned, tuples meet by s.k, folded into panes before (Read s)

    Late tuples that somebody asks for have to come as they are, an aggregate that keeps its tuples
    gains nothing, and where single groups are punctuated, panes would have to be apart for each.
    Results of joins are never late, and may be many; those of other operators are few already.

    >>> import penstock as ps
    >>> from penstock.optimizer.physical.lower import lower
    >>> db = ps.connect()
    >>> db.stream("s", [{"k": 2, "t": 4}], progress=ps.progress("t", delay=5))
    >>> def folded(aggregate):
    ...     text = f"SELECT {aggregate} AS x [RANGE 9, SLIDE 9, WA t] FROM s GROUP BY k"
    ...     plan = pre_aggregate(lower(db.sql(text).plan, Settings()), Settings())
    ...     return [port.pre_aggregated for node in plan.root.walk() for port in node.ports]
    >>> folded("count(*)"), folded("median(k)")
    ([False, True], [False, False])
    """
    return replace(plan, root=_folded(plan.root, plan.query.late is Late.DROP))


def _folded(node: PhysicalNode, drops: bool) -> PhysicalNode:
    """`drops` late tuples, which nobody asks for then."""
    gains = _gains(node)
    ports = tuple(
        replace(
            port,
            input=_folded(port.input, drops),
            pre_aggregated=gains and _can_be_folded(port.input, drops),
        )
        for port in node.ports
    )
    return replace(node, ports=ports) if ports != node.ports else node


def _gains(node: PhysicalNode) -> bool:
    return (
        node.operator is OperatorKind.PANED
        and isinstance(node.logical, WindowAggregate)
        and not any(build(each.call).holistic for each in node.logical.aggregates)
    )


def _can_be_folded(node: PhysicalNode, drops: bool) -> bool:
    found = list(_ways(node, drops))
    return bool(found) and all(found)


def _ways(node: PhysicalNode, drops: bool) -> Iterator[bool]:
    """Of every way on which there may be many rows: whether they can be folded."""
    logical = node.logical
    if isinstance(logical, Scan):
        progress = logical.stream.progress
        yield drops and (progress is None or progress.group_punctuation is None)
    elif isinstance(logical, Join | Sequence):
        yield not logical.signed
    elif not node.stateful:
        for each in node.inputs:
            yield from _ways(each, drops)
