"""How the state of a plan lies in the buckets, as far as the query alone does not say it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.physical.node import PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.identity.identity import meaning, origins
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.sequence import Sequence

READS = re.compile(r"(stream|progress on) ")  # which columns are read is said elsewhere


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


def simplified_state(plan: PhysicalPlan) -> list[str]:
    """What is kept where rules have made something simpler of what was asked."""
    if not plan.simplified:
        return []
    top = plan.root.logical
    lines = meaning(top.inputs[0] if isinstance(top, QueryPlan) else top)
    return [f"simplified: {line}" for line in map(str.strip, lines) if not READS.match(line)]


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
