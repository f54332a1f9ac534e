"""What operators take for a tuple and for progress, beside the work that they really do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from penstock.engine.graph.operator_node import OperatorNode
from penstock.operators.batch import Batch
from penstock.operators.measured import Measured
from penstock.operators.operator import Item, Progress

Spend = Callable[[int], None]  # so many microseconds


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds that it takes to let a tuple enter, to handle one in an operator, and to look at
    progress in an operator; `free` are the kinds of operators that take none."""

    entry: int = 0
    tuple: int = 20
    progress: int = 0
    free: frozenset[str] = frozenset()

    def slowed(self, times: int) -> Costs:
        """The same in slow motion."""
        entry, tuple_, progress = (each * times for each in (self.entry, self.tuple, self.progress))
        return replace(self, entry=entry, tuple=tuple_, progress=progress)

    def charge(self, operators: Iterable[OperatorNode], spend: Spend) -> None:
        """Let operators take that, from now on."""
        for node in operators:
            if node.measured.name not in self.free:
                node.measured = _Charged(node.measured, self, spend)


class _Charged(Measured):
    """Lets time pass when an operator is called, before what it has made goes anywhere."""

    def __init__(self, measured: Measured, costs: Costs, spend: Spend) -> None:
        super().__init__(measured.operator, measured.name)
        self._costs = costs
        self._spend = spend

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        self._spend(self._costs.tuple * batch.num_rows)
        return super().on_batch(port, batch)

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        self._spend(self._costs.progress)
        return super().on_progress(port, progress)
