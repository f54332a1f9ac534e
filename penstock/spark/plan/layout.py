"""How the state of a plan lies in the buckets, as far as the query alone does not say it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.physical.node import PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.identity import origins
from penstock.plan.joins import Difference, Join, Sequence


def kept_columns(plan: PhysicalPlan) -> list[str]:
    """The columns of tuples that wait for others: those that the query looks at, so another SELECT
    list may need more than there are."""
    return [
        f"join {number} keeps {text} {field.type}"
        for number, node in _keeping_tuples(plan)
        for port in node.ports
        for field, text in zip(
            port.input.logical.schema, origins(port.input.logical).values(), strict=True
        )
    ]


def slices(plan: PhysicalPlan) -> list[str]:
    """In which slices of time tuples meet that have no keys."""
    return [
        f"join {number} meets in slices of {port.slices.width} from {port.slices.low} to"
        f" {port.slices.high}"
        for number, node in _keeping_tuples(plan)
        for port in node.ports
        if port.slices is not None
    ]


def _keeping_tuples(plan: PhysicalPlan) -> Iterator[tuple[int, PhysicalNode]]:
    nodes = (n for n in plan.root.walk() if isinstance(n.logical, Join | Sequence | Difference))
    return enumerate(nodes, start=1)
