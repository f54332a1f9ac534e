"""Names of nodes: what is computed, over which streams, whichever query asks for it.

State is saved under them, so they do not say how it is computed, nor what columns are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2s

from penstock.engine.graph.node import GraphNode
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.plan.identity.identity import meaning
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.shared_panes import WindowsOfPanes

_DIGITS = 4  # bytes


def name_of(node: PhysicalNode, producers: Sequence[GraphNode]) -> str:
    """Where tuples meet, what is saved has a meaning of its own; all others are named by what
    stands below them."""
    logical = node.logical
    if node.operator is OperatorKind.ORDER:
        return order_name(logical)
    if node.stateful or len(node.ports) > 1 or node.operator is OperatorKind.STAMP:
        return _named(type(logical).__name__, meaning(logical))
    below = [each.name for each in producers]
    return _named(type(logical).__name__, [*logical.details(), *below])


def order_name(query: Node) -> str:
    """Of the operator that puts the rows of a query in order."""
    return _named("Order", meaning(query.inputs[0]))


def windows_of_panes_name(aggregate: WindowAggregate) -> str:
    """Of the operator that makes the windows of an aggregation of panes that it shares."""
    return _named(WindowsOfPanes.__name__, meaning(aggregate))


def _named(kind: str, lines: Sequence[str]) -> str:
    digest = blake2s("\n".join(lines).encode(), digest_size=_DIGITS)
    return f"{kind}-{digest.hexdigest()}"
