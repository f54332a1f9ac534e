"""Equal parts of two queries, which are one node: the same work on what the same nodes put out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.plan.nodes.node import Node

_OWN = (OperatorKind.LOOKUP, OperatorKind.ORDER)
Producers = Sequence[tuple[GraphNode, dict[str, str] | None]]


def doing_the_same(
    node: PhysicalNode, producers: Producers, among: Sequence[OperatorNode]
) -> OperatorNode | None:
    """A node that does what a plan asks for."""
    for other in among:
        if _same_work(node, other.node):
            inputs = [(each.producer, each.names) for each in other.inputs]
            if all(
                own is its and names == its_names
                for (own, names), (its, its_names) in zip(producers, inputs, strict=True)
            ):
                return other
    return None


def _same_work(one: PhysicalNode, other: PhysicalNode) -> bool:
    """Apart from what stands below.  Tables are read for every look-up, and what puts rows in order
    belongs to its query, which may do without it later."""
    return (
        one.operator is other.operator
        and one.operator not in _OWN
        and len(one.ports) == len(other.ports)
        and type(one.logical) is type(other.logical)
        and _said(one) == _said(other)
        and list(_own_fields(one.logical)) == list(_own_fields(other.logical))
    )


def _said(node: PhysicalNode) -> tuple[object, ...]:
    how = (node.asked, node.ordering, node.sorting, node.alpha, node.consistency)
    return (*how, node.whole_windows, node.punctuated, node.unseen)


def _own_fields(node: Node) -> Iterator[Any]:
    """What a node says itself, without its inputs."""
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        inputs = isinstance(value, tuple) and value and isinstance(value[0], Node)
        if field.compare and not isinstance(value, Node) and not inputs:
            yield value
