"""Rows on their way through the stateless nodes between an operator and the end of a query."""

from __future__ import annotations

from penstock.operators.batch import Batch
from penstock.operators.stateless.filter import FilterOperator
from penstock.operators.stateless.project import ProjectOperator
from penstock.operators.stateless.union import Meld
from penstock.physical.asked import Steps
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Filter, Project, Union


class WayOut:
    def __init__(self, steps: Steps) -> None:
        self._steps = [(_operator(node), port) for node, port in steps]

    def through(self, batch: Batch) -> Batch | None:
        """What becomes of rows; None if none of them is left."""
        for operator, port in self._steps:
            made = [each for each in operator.on_batch(port, batch) if isinstance(each, Batch)]
            if not made or made[0].num_rows == 0:
                return None
            (batch,) = made
        return batch


def _operator(node: Node) -> FilterOperator | ProjectOperator | Meld:
    match node:
        case Filter():
            return FilterOperator(node)
        case Project():
            return ProjectOperator(node)
        case Union():
            return Meld(node)
    raise AssertionError(f"rows do not go on through a {type(node).__name__}")
