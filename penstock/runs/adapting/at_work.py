"""An operator at work, as whoever looks for a better one sees it: in a graph, or in a bucket."""

from __future__ import annotations

from typing import Protocol

from penstock.operators.measured import Measured
from penstock.operators.operator import Operator, Progress
from penstock.physical.node import PhysicalNode


class AtWork(Protocol):
    node: PhysicalNode
    measured: Measured
    operator: Operator

    @property
    def name(self) -> str: ...

    @property
    def is_clear(self) -> bool:
        """Whether nothing waits there, so that another operator can go on."""
        ...

    def told(self, port: int) -> Progress | None:
        """How far an input has come."""
        ...

    def exchange(self, node: PhysicalNode, operator: Operator) -> None:
        """Another operator with the same answer goes on from where this one is."""
        ...
