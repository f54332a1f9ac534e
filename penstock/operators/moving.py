"""State that was saved by another operator: it is loaded as it was, and moves to the one that
stands for it now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.errors import CheckpointError
from penstock.model.clock import Clock
from penstock.operators.build import operator_for
from penstock.operators.operator import Movable, Operator
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.plan.nodes.joins import Join
from penstock.state.chunks import ChunkStore


def movable(operator: Operator) -> Movable[Any]:
    """One that others can stand for."""
    assert isinstance(operator, Movable), f"{type(operator).__name__} keeps its state to itself"
    return operator


def load_moved(
    operator: Operator, node: PhysicalNode, was: str, store: ChunkStore, clock: Clock
) -> bool:
    """Into an operator that has seen nothing yet, from that of a kind that it `was`; whether it has
    moved.  Then the chunks of the other one are to be dropped before this one is saved."""
    if was == node.operator.value:
        operator.load(store)
        return False
    other = replace(node, operator=OperatorKind(was))
    if isinstance(node.logical, Join):  # whose results were perhaps in another order
        other = replace(other, sorting=None)
    before = operator_for(other, clock)
    _movable(before, was, node).load(store)
    _movable(operator, was, node).adopt(_movable(before, was, node).export())
    return True


def drop_all(store: ChunkStore) -> None:
    for name in list(store.names()):
        store.drop(name)


def _movable(operator: Operator, was: str, node: PhysicalNode) -> Movable[Any]:
    if not isinstance(operator, Movable):
        raise CheckpointError(
            f"the checkpoint has state of {was}, which {node.operator.value} cannot go on from",
            hint="another checkpoint, or delete the directory to begin anew",
        )
    return operator
