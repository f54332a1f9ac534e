"""A node whose operator gives out the rows that it was given: their waiting counts as latency."""

from __future__ import annotations

from time import perf_counter_ns

from penstock.engine.graph.operator_node import NodeInput, OperatorNode
from penstock.engine.graph.waiting_since import WaitingSince
from penstock.operators.batch import Batch
from penstock.operators.operator import LateRows, Operator, Progress
from penstock.physical.node import OperatorKind, PhysicalNode

GIVING_BACK = (OperatorKind.MERGE, OperatorKind.ORDER)


class GivingBackNode(OperatorNode):
    """Rows that have waited here came before what lets them leave."""

    def __init__(self, name: str, operator: Operator, node: PhysicalNode, computes: str) -> None:
        super().__init__(name, operator, node, computes)
        self._waiting = WaitingSince()

    def _handle(self, port: int, batch: Batch) -> None:
        self._waiting.come(self.arrived, batch.num_rows)
        super()._handle(port, batch)

    def _on_progress(self, port: int, input_: NodeInput, progress: Progress) -> None:
        super()._on_progress(port, input_, progress)
        if not self.operator.rows_held():
            self._waiting.clear()

    def _give(self, batch: Batch) -> None:
        now, first = perf_counter_ns(), self.arrived
        for arrived, rows in self._waiting.leave(batch.num_rows):
            first = min(first, arrived)
            for way_out in self.exits:
                way_out.outlet.latencies.add(now - arrived, rows)
        if self.exits:
            for way_out in self.exits:
                way_out.take(batch)
            self.output.put(batch, first)
            return
        self.arrived, released = first, self.arrived
        super()._give(batch)
        self.arrived = released

    def _late(self, item: LateRows) -> None:
        self._waiting.refuse(item.batch.num_rows)
        super()._late(item)


def node_for(name: str, operator: Operator, node: PhysicalNode, computes: str) -> OperatorNode:
    kind = GivingBackNode if node.operator in GIVING_BACK else OperatorNode
    return kind(name, operator, node, computes)
