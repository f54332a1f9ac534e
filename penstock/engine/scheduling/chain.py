"""Break nodes that follow from memory: when many rows wait, those go on first that become fewer.

Chain (Babcock and others, 2003) runs the steepest segment that has rows waiting, which keeps less
in buffers than any order that knows no more.  A segment ends in a virtual break node.  As long as
few rows wait, there are none, and the graph is worked on depth first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.strategy.segments import segments

_UNKNOWN = (1_000.0, 1.0)  # nanoseconds and selectivity of an operator that has seen nothing


class MemoryPolicy:
    """Of a connected part of the graph.  `arrange` gives nodes the rules for where they stand."""

    def __init__(
        self,
        nodes: Sequence[GraphNode],
        limit: int,
        arrange: Callable[[Sequence[GraphNode]], None],
    ) -> None:
        self.limit = limit  # rows that may wait
        self._nodes = nodes
        self._arrange = arrange
        self._slopes: dict[GraphNode, float] = {}  # of the segments that nodes are in
        self.active = False

    def look(self) -> None:
        """Whether so many rows wait that it matters who comes first."""
        crowded = self._waiting() > self.limit
        if crowded and not self.active:
            self._break_up()
        elif self.active and not crowded:
            self.mend()

    def steepest(self, busy: Iterable[GraphNode]) -> GraphNode | None:
        """Of those that have something to do, one in the steepest segment."""
        able = [node for node in busy if node.more]
        return max(able, key=lambda node: self._slopes.get(node, 0.0), default=None)

    def mend(self) -> None:
        """No break nodes any more."""
        self.active = False
        self._end_behind(set())

    def _waiting(self) -> int:
        """Rows that have come, and wait somewhere."""
        return sum(
            node.output.rows + (node.rows_delivered if isinstance(node, SourceNode) else 0)
            for node in self._nodes
        )

    def _break_up(self) -> None:
        """As what has been measured so far suggests.  A node of several paths counts as it does in
        the steepest of them."""
        self.active, self._slopes = True, {}
        ends: set[GraphNode] = set()
        for path in _paths(self._nodes):
            for segment in segments([_measured(node) for node in path]):
                for node in path[segment.begin : segment.end]:
                    known = self._slopes.get(node, 0.0)
                    self._slopes[node] = max(known, segment.slope)
                ends.add(path[segment.end - 1])
        self._end_behind({node for node in ends if node.memory_limit is not None})

    def _end_behind(self, ends: set[GraphNode]) -> None:
        for node in self._nodes:
            node.ends_segment = node in ends
        self._arrange(self._nodes)


def _paths(nodes: Sequence[GraphNode]) -> Iterator[list[GraphNode]]:
    """All ways from a source to a sink."""
    for source in nodes:
        if isinstance(source, SourceNode):
            waiting: list[list[GraphNode]] = [[source]]
            while waiting:
                path = waiting.pop()
                behind = path[-1].successors
                if not behind:
                    yield path
                waiting += [[*path, each] for each in dict.fromkeys(behind)]


def _measured(node: GraphNode) -> tuple[float, float]:
    """Nanoseconds per row, and rows out per row in."""
    assert isinstance(node, SourceNode | OperatorNode)
    flow = node.flow if isinstance(node, SourceNode) else node.measured.flow
    if not flow.rows_in:
        return _UNKNOWN
    return flow.nanoseconds / flow.rows_in, flow.rows_out / flow.rows_in
