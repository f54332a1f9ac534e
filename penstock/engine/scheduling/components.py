"""The connected parts of a graph, as queries come and go, and the groups that they belong to.

Whatever is connected is in one group, and a group is worked on by one thread at a time: so nothing
that one part does can be seen by another, however many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.placed_query import PlacedQuery
from penstock.engine.graph.topology import Topology
from penstock.engine.scheduling.chain import MemoryPolicy
from penstock.engine.scheduling.component import Component
from penstock.engine.scheduling.cycle import Cycle

Arrange = Callable[[Sequence[GraphNode]], None]


class Components:
    """`arrange` gives nodes the rules for where they stand; there is a cycle for every group."""

    def __init__(self, topology: Topology, arrange: Arrange, groups: int = 1) -> None:
        self.cycles = [Cycle() for _ in range(groups)]
        self._topology = topology
        self._arrange = arrange
        self._found: list[Component] = []
        self._changed = True  # the topology, since they were found

    def all(self) -> list[Component]:
        if self._changed:
            self._changed = False
            used = min((each.used for each in self._found), default=0.0)
            nodes = self._topology.nodes
            self._arrange(nodes)
            parts = connected(nodes)
            groups = [_group_before(part) for part in parts]
            self._found = [Component(part, self.cycles[0], used=used) for part in parts]
            self._group(groups)
            self.mind_memory()
            for placed in self._topology.queries.values():
                self._give(placed)
        return self._found

    def of(self, node: GraphNode) -> Component:
        if self._changed or node.component is None:
            return next(each for each in self.all() if node in each.nodes)
        return node.component

    def in_group(self, number: int) -> list[Component]:
        if len(self.cycles) == 1:
            return self.all()
        return [each for each in self.all() if each.group == number]

    def change(self) -> None:
        """They are to be found anew."""
        self._changed = True

    def connect(self, placed: PlacedQuery, new: list[OperatorNode]) -> None:
        """A query over one stream that others read belongs to their part of the graph; otherwise
        parts may have become one."""
        component = placed.sources[0].component
        if self._changed or len(placed.sources) > 1 or component is None:
            self._changed = True
            return
        component.take_in(new)
        producers = [each for node in new for each in node.predecessors]
        self._arrange(list(dict.fromkeys((*new, *producers))))
        self._give(placed)

    def disconnect(self, placed: PlacedQuery, gone: list[OperatorNode]) -> None:
        """Without a query over one stream, all others are connected as before."""
        (source, *others), usual = placed.sources, placed.share == 1 and placed.enabling is None
        if self._changed or others or not source.is_wanted or not usual:
            self._changed = True
            return
        assert source.component is not None
        source.component.let_go(gone)
        producers = {each: None for node in gone for each in node.predecessors}
        self._arrange([each for each in producers if each not in gone])

    def _give(self, placed: PlacedQuery) -> None:
        component = self.of(placed.sources[0])
        component.share = max(component.share or 0.0, placed.share)
        component.enabling = placed.enabling or component.enabling

    def mind_memory(self) -> None:
        """Where a strategy says so."""
        for each in self._found:
            limits = [n.memory_limit for n in each.nodes if n.memory_limit is not None]
            if each.memory is not None:
                each.memory.mend()
            each.memory = MemoryPolicy(each.nodes, min(limits), self._arrange) if limits else None

    # --- groups ----------------------------------------------------------------------------------

    def _group(self, before: Sequence[int | None]) -> None:
        """Parts stay in the group that they were in, new ones go to the smallest, and where one has
        become much smaller than another, some move.  The first comes last: its thread has more to
        do."""
        sizes = [0] * len(self.cycles)
        newcomers = []
        for component, group in zip(self._found, before, strict=True):
            if group is None:
                newcomers.append(component)
            else:
                component.join(group, self.cycles[group])
                sizes[group] += 1
        for component in newcomers:
            self._join(component, _smallest(sizes), sizes)
        while max(sizes) - min(sizes) > 1:
            large = sizes.index(max(sizes))
            moving = next(each for each in reversed(self._found) if each.group == large)
            sizes[large] -= 1
            self._join(moving, _smallest(sizes), sizes)

    def _join(self, component: Component, group: int, sizes: list[int]) -> None:
        component.join(group, self.cycles[group])
        sizes[group] += 1


def _smallest(sizes: Sequence[int]) -> int:
    return min(range(len(sizes)), key=lambda group: (sizes[group], -group))


def _group_before(part: Sequence[GraphNode]) -> int | None:
    return next((node.component.group for node in part if node.component is not None), None)


def connected(nodes: Sequence[GraphNode]) -> list[list[GraphNode]]:
    """The nodes by connected part, in the order of their first ones."""
    part_of: dict[GraphNode, int] = {}
    parts: list[list[GraphNode]] = []
    for first in nodes:
        if first in part_of:
            continue
        part, waiting = [first], [first]
        part_of[first] = len(parts)
        while waiting:
            node = waiting.pop()
            for other in (*node.predecessors, *node.successors):
                if other not in part_of:
                    part_of[other] = len(parts)
                    part.append(other)
                    waiting.append(other)
        parts.append(part)
    return parts
