"""A connected part of the graph, which is a unit for the scheduler: it has a share of the time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.options import Enabling
from penstock.engine.scheduling.chain import MemoryPolicy
from penstock.engine.scheduling.cycle import Cycle

if TYPE_CHECKING:
    from penstock.runs.adapting.watched import Watched


class Component:
    """`share` is how much of the time it gets, relative to others; `used` what it has had, in
    nanoseconds by its share: who has had least comes next."""

    def __init__(self, nodes: Sequence[GraphNode], cycle: Cycle, used: float = 0.0) -> None:
        self.memory: MemoryPolicy | None = None  # if it decides who comes first
        self.nodes: list[GraphNode] = []
        self.sources: list[SourceNode] = []
        self._live: list[SourceNode] = []
        self._sensitive: list[OperatorNode] = []
        self.watched: list[Watched] = []  # operators that may be exchanged
        self.share = 0.0  # the largest of its queries
        self.enabling: Enabling | None = None  # if another than that of the run
        self.used = used
        self.group = 0
        self._cycle = cycle
        self._busy: deque[GraphNode] = deque()
        self.take_in(nodes)

    def join(self, group: int, cycle: Cycle) -> None:
        """From now on, it is worked on together with others."""
        self.group, self._cycle = group, cycle

    def take_in(self, nodes: Sequence[GraphNode]) -> None:
        """Nodes that are connected with it."""
        self.nodes += nodes
        sources = [node for node in nodes if isinstance(node, SourceNode)]
        self.sources += sources
        self._live += [source for source in sources if source.ingest.live]
        operators = [node for node in nodes if isinstance(node, OperatorNode)]
        self._sensitive += [node for node in operators if node.sensitive]
        self.watched += [node.watched for node in operators if node.watched is not None]
        for node in nodes:
            node.component, node.listed = self, False
            if node.more or node.blocked:
                self.add(node)

    def let_go(self, operators: Sequence[OperatorNode]) -> None:
        """Nodes that are gone; the others are still connected."""
        for node in operators:
            self.nodes.remove(node)
            if node.sensitive:
                self._sensitive.remove(node)
            if node.watched is not None:
                self.watched.remove(node.watched)
            if node.listed:
                self._busy.remove(node)
            node.component = None

    def add(self, node: GraphNode) -> None:
        """There is something to do for a node."""
        node.listed = True
        self._busy.append(node)

    def failed_in(self, branch: GraphNode) -> None:
        """What was handed over to a branch has failed there, or behind it: whoever is nearest to
        where that was has told first."""
        if self._cycle.failed is None:
            self._cycle.failed = branch

    @property
    def busy(self) -> bool:
        return self._pick() is not None or any(s.next_alone is not None for s in self.sources)

    def drain(self) -> None:
        """Until nothing waits anywhere, or somebody interrupts it."""
        memory = self.memory
        if memory is not None:
            memory.look()
        while (node := self._pick() or self._next_alone()) is not None:
            self._cycle.run(node)
            if self._cycle.interrupted:
                return
            if memory is not None:
                memory.look()

    def _next_alone(self) -> SourceNode | None:
        """A source with a tuple that waited for everything before it to be handled."""
        waiting = [(s.next_alone, s) for s in self.sources if s.next_alone is not None]
        if not waiting:
            return None
        _, source = min(waiting, key=itemgetter(0))
        source.let_in_one()
        return source

    def _pick(self) -> GraphNode | None:
        """A node that has something to do.  Where progress waits for tuples before it, whoever has
        those comes first."""
        busy, blocked = self._busy, 0
        if self.memory is not None and self.memory.active:
            steepest = self.memory.steepest(busy)
            if steepest is not None:
                return steepest
        while busy and blocked < len(busy):
            node = busy[0]
            if node.more:
                return node
            if node.blocked:
                busy.rotate(-1)
                blocked += 1
            else:
                busy.popleft().listed = False
        return None

    @property
    def held(self) -> bool:
        """Whether its queries are paused, or wait for subscribers."""
        return any(source.waits for source in self.sources)

    @property
    def is_live(self) -> bool:
        """Whether a source may fall silent."""
        return bool(self._live)

    def flush(self) -> None:
        """Let those see what has left who look at it while a stream goes on."""
        for source in self._live:
            for outlet in source.outlets:
                outlet.flush()

    @property
    def waits_for_progress(self) -> bool:
        """Whether an operator holds something that only progress can release."""
        return any(node.holds for node in self._sensitive)

    @property
    def waiting_idly(self) -> list[OperatorNode]:
        """Operators with rows that could leave, if only progress came."""
        return [node for node in self._sensitive if node.waits_idly] if self._live else []

    @property
    def released(self) -> int:
        """Rows that have left such operators."""
        return sum(node.measured.flow.rows_out for node in self._sensitive)
