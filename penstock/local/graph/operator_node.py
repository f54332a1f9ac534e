"""Operators as nodes of the query graph: their inputs, their execution, and the latency of rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import TYPE_CHECKING

from penstock.kernel.batch import Batch
from penstock.kernel.build import movable
from penstock.kernel.operator import Item, LateRows, Measured, Operator, Progress
from penstock.local.graph.buffer import Reader
from penstock.local.graph.node import IDLE_WAITING, PASSING, GraphNode, Register
from penstock.local.graph.source_node import SourceNode
from penstock.plan.nodes.aggregation import (
    Distinct,
    DistinctOn,
    GroupAggregate,
    SharedPanes,
    WindowAggregate,
)
from penstock.plan.nodes.over import RowsOver
from penstock.plan.physical import OperatorKind, PhysicalNode

if TYPE_CHECKING:
    from penstock.runs.adaptation import Watched

_FOLDING = (WindowAggregate, GroupAggregate, Distinct, DistinctOn, RowsOver, SharedPanes)


@dataclass(slots=True)
class NodeInput:
    """An input port: its producer, its reader, and its register if the operator is
    progress-sensitive."""

    producer: GraphNode
    names: dict[str, str] | None  # of its columns here; None: unchanged
    reader: Reader
    register: Register | None = None
    origin: GraphNode | None = None  # where the arc to the register begins


class OperatorNode(GraphNode):
    """An operator in the query graph."""

    def __init__(self, name: str, operator: Operator, node: PhysicalNode, computes: str) -> None:
        """`computes` is the name that the node has if no other node computes the same."""
        super().__init__(name)
        self.computes = computes
        self.operator = operator
        self.node = node
        self.measured = Measured(operator, node.operator.value)
        self.inputs: list[NodeInput] = []
        self._readers: list[Reader] = []
        self._registers: list[Register] = []
        self.pending: Iterator[Item] | None = None  # results that have been begun
        self.exchanged = False  # since it was saved
        self.watched: Watched | None = None  # by the adaptation, which may exchange the operator

    def exchange(self, node: PhysicalNode, operator: Operator) -> None:
        """Exchange the operator for another one with the same answer, which takes over its state;
        between two items, when nothing waits here."""
        movable(operator).adopt(movable(self.operator).export())
        self.operator = self.measured.operator = operator
        self.node, self.measured.name = node, node.operator.value
        self.exchanged = True
        self.changed()
        for each in self.inputs:
            if each.register is not None and each.origin is not None:
                each.origin.arcs.lay(each.register, self)

    def told(self, port: int) -> Progress | None:
        """Progress that the operator has seen on a port, or None if it is not
        progress-sensitive."""
        register = self.inputs[port].register
        return None if register is None else register.last

    @property
    def sensitive(self) -> bool:
        """Whether the operator is progress-sensitive."""
        return self.node.operator not in PASSING

    def read(self, producers: Sequence[tuple[GraphNode, dict[str, str] | None]]) -> None:
        """Connect the ports, in their order; each knows the columns by names of its own."""
        for port, (producer, names) in enumerate(producers):
            reader = producer.output.read_by(self, names, port)
            reader.measured = self.measured
            input_ = NodeInput(producer, names, reader)
            if self.sensitive:
                self._lay_arc(input_)
            self.inputs.append(input_)
            self._readers.append(reader)

    def _lay_arc(self, input_: NodeInput) -> None:
        """Lay the arc from the nearest progress-sensitive node upstream, or from the source."""
        readers, node = [input_.reader], input_.producer
        between: list[OperatorNode] = []
        while isinstance(node, OperatorNode) and not node.sensitive:
            (below,) = node.inputs
            readers.insert(0, below.reader)
            between.insert(0, node)
            node = below.producer
        register = Register(readers, between, input_.reader.port)
        input_.register, input_.origin = register, node
        self._registers.append(register)
        node.arcs.lay(register, self)

    def catch_up(self) -> None:
        """Receive the bounds that streams which have begun have promised so far: they hold for what
        follows."""
        for each in self.inputs:
            if each.register is not None and isinstance(each.origin, SourceNode):
                promised = each.origin.promised()
                if promised is not None:
                    each.origin.offer_to(each.register, promised)

    # --- the cycle -------------------------------------------------------------------------------

    @property
    def more(self) -> bool:
        if self.pending is not None:
            return True
        for reader in self._readers:
            if reader.waiting:
                return True
        for register in self._registers:  # noqa: SIM110
            if register.ready:
                return True
        return False

    @property
    def blocked(self) -> bool:
        return any(register.active for register in self._registers)

    @property
    def is_clear(self) -> bool:
        """Whether no item waits between the sources and this node.  A query that joins here then
        gets the same rows as one that joins at the sources."""
        return self.pending is None and all(
            not each.reader.waiting
            and (not isinstance(each.producer, OperatorNode) or each.producer.is_clear)
            for each in self.inputs
        )

    def execute(self) -> int:
        """Take tuples first, with the progress that comes along with them, then registers; results
        that are computed lazily are emitted a step at a time."""
        if self.pending is not None:
            return self._go_on(self.pending)
        for port, reader in enumerate(self._readers):
            if reader.waiting:
                return self._take(port, reader)
        for port, each in enumerate(self.inputs):
            if each.register is not None and each.register.ready:
                self._see(port, each)
        return 0

    def takes_at_once(self, reader: Reader, batch: Batch, arrived: int) -> bool:
        if reader.waiting or self.pending is not None or not self.hands_over:
            return False
        self.arrived = arrived
        self._handle(reader.port, reader.known(batch))
        if self.pending is not None:
            self.wake()
        return True

    def sees_at_once(self, register: Register, progress: Progress, arrived: int) -> bool:
        """Whether progress need not wait in a register, and has been seen."""
        if self.pending is not None or not self.hands_over or not register.is_clear:
            return False
        self.arrived = arrived
        input_ = self.inputs[register.port]
        self._on_progress(register.port, input_, register.arriving(progress))
        return True

    def _take(self, port: int, reader: Reader) -> int:
        item = reader.take(self.step)
        self.arrived = reader.arrived
        if isinstance(item, Progress):
            self._on_progress(port, self.inputs[port], item)
            return 0
        self._handle(port, item)
        input_ = self.inputs[port]
        if self.pending is None and input_.register is not None and input_.register.ready:
            self._see(port, input_)  # what came along with the tuples
        return item.num_rows

    def _handle(self, port: int, batch: Batch) -> None:
        self.changed()
        made = self.measured.on_batch(port, batch)
        if not isinstance(made, list):
            self._go_on(iter(made))
            return
        for item in made:
            if isinstance(item, Batch):
                self._give(item)
            else:
                self.emit_one(item)

    def _see(self, port: int, input_: NodeInput) -> None:
        """Take the progress that the register of a port offers."""
        register = input_.register
        assert register is not None
        assert input_.origin is not None
        input_.origin.taken(register)
        self.arrived = register.arrived
        for progress in register.take():
            self._on_progress(port, input_, progress)

    def _go_on(self, made: Iterator[Item]) -> int:
        """Emit results until a step is full; the rest stays pending."""
        self.pending, rows = made, 0
        for item in made:
            self.emit_one(item)
            rows += item.num_rows if isinstance(item, Batch) else 0
            if rows >= self.step:
                return rows
        self.pending = None
        return rows

    def _on_progress(self, port: int, input_: NodeInput, progress: Progress) -> None:
        if self.node.whole_windows and progress.groups is not None:
            progress = replace(progress, groups=None)
        if input_.register is not None:
            input_.register.last = progress
        self.changed()
        for item in self.measured.on_progress(port, progress):
            self.emit_one(item)

    def on_time(self, now: int) -> None:
        self.arrived = perf_counter_ns()
        self.changed()
        self.emit(self.measured.on_time(now))

    def backward(self) -> GraphNode:
        if len(self.inputs) == 1:
            return self.inputs[0].producer
        return min(self.inputs, key=_low).producer

    # --- where it stands -------------------------------------------------------------------------

    @property
    def predecessors(self) -> list[GraphNode]:
        return [each.producer for each in self.inputs]

    @property
    def holds(self) -> bool:
        """Whether the operator keeps rows, or results begun, that only progress releases.  An
        operator that folds tuples keeps something open as soon as there have been any."""
        if not self.sensitive or not self.measured.flow.rows_in:
            return False
        return self.folds or self.operator.rows_held() > 0

    @property
    def waits_idly(self) -> bool:
        """Whether this is an idle-waiting operator now: rows could leave, if only progress came."""
        return self.node.operator in IDLE_WAITING and self.holds

    @property
    def folds(self) -> bool:
        return isinstance(self.node.logical, _FOLDING)

    def leave(self) -> None:
        """Detach the node from its producers, because no query needs it."""
        for each in self.inputs:
            each.reader.leave()
            if each.register is not None and each.origin is not None:
                each.origin.taken(each.register)
                each.origin.arcs.remove(each.register)


def _low(input_: NodeInput) -> float:
    return input_.register.low if input_.register is not None else 0


# Latency of operators that emit the rows they were given.
#
# Rows leave in the order of their times, and are matched here with arrivals in order of arrival:
# the sum of all waiting times does not depend on which row is matched with which arrival.


class WaitingSince:
    """Arrival times of the rows that wait in an operator.

    >>> waiting = WaitingSince()
    >>> waiting.come(100, 2)
    >>> waiting.come(130, 5)
    >>> list(waiting.leave(4))
    [(100, 2), (130, 2)]
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int]] = deque()

    def come(self, arrived: int, rows: int) -> None:
        self._waiting.append((arrived, rows))

    def refuse(self, rows: int) -> None:
        """Remove the rows that came last: they do not wait, because they were late."""
        waiting = self._waiting
        while rows and waiting:
            arrived, there = waiting.pop()
            if there > rows:
                waiting.append((arrived, there - rows))
                there = rows
            rows -= there

    def clear(self) -> None:
        """Forget all arrivals: the rows that came were retracted before they could leave."""
        self._waiting.clear()

    def leave(self, rows: int) -> Iterator[tuple[int, int]]:
        """Yield the arrival times of the rows that leave, with numbers of rows.  Rows that an
        earlier run left behind have none."""
        waiting = self._waiting
        while rows and waiting:
            arrived, there = waiting.popleft()
            if there > rows:
                waiting.appendleft((arrived, there - rows))
                there = rows
            rows -= there
            yield arrived, there


# Nodes whose operators emit the rows that they were given: their waiting counts as latency.

REORDERING = (OperatorKind.MERGE, OperatorKind.ORDER)


class ReorderingNode(OperatorNode):
    """A node that emits its input rows.  These arrived before the progress that releases them."""

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
    kind = ReorderingNode if node.operator in REORDERING else OperatorNode
    return kind(name, operator, node, computes)
