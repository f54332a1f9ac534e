"""A query in the graph: which nodes are its own or shared, and what it asks of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.placement import Placement
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.options import Enabling
from penstock.engine.reading.in_step import Meeting
from penstock.optimizer.share_panes import shareable_panes
from penstock.physical.node import PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.shared_panes import SharedPanes
from penstock.runs.outlet import Outlet


@dataclass
class PlacedQuery:
    """Nodes go from the sink to the sources."""

    plan: PhysicalPlan
    outlet: Outlet
    operators: list[OperatorNode] = field(default_factory=list)
    sources: list[SourceNode] = field(default_factory=list)
    share: float = 1.0  # of the time; the largest one counts for all that are connected
    enabling: Enabling | None = None  # if another than that of the run
    met: list[Meeting] = field(default_factory=list)
    kept_for: list[tuple[SourceNode, ...]] = field(default_factory=list)
    lasting: bool = False  # whether it goes on after the end of what can be read now
    asked: list[SourceNode] = field(default_factory=list)  # each time that it asks for a stream
    saved: Placement | None = None  # where it stood before
    shared: dict[Node, tuple[OperatorNode, list[SourceNode]]] = field(default_factory=dict)
    copies: dict[OperatorNode, str] = field(default_factory=dict)  # of state under other names

    @cached_property
    def could_share(self) -> frozenset[SharedPanes]:
        """Panes that it could have in common with others; found once, because every newcomer
        asks."""
        return frozenset(shareable_panes(self.plan))

    @cached_property
    def shares(self) -> frozenset[SharedPanes]:
        """Panes that it makes its windows of."""
        nodes = (node.logical for node in self.plan.root.walk())
        return frozenset(node for node in nodes if isinstance(node, SharedPanes))

    def remember(self, made: OperatorNode, sources: list[SourceNode]) -> None:
        """The node of a part that may be asked for again."""
        if made.node.logical in self.plan.shared:
            self.shared.setdefault(made.node.logical, (made, sources))

    def computed_already(self, node: PhysicalNode) -> tuple[OperatorNode, list[SourceNode]] | None:
        """The node that the query has for a part which is computed once, with the sources below it.
        All nodes of that part are asked for once more.  One that was saved apart stays apart."""
        if not self.shared or node.logical not in self.shared:
            return None
        made, sources = self.shared[node.logical]
        saved = self.saved is not None and self.saved.operators.get(made.computes)
        if saved or made.node != node:  # or what is asked of its results differs
            return None
        waiting: list[GraphNode] = [made]
        while waiting:
            each = waiting.pop()
            if isinstance(each, OperatorNode):
                each.uses[self.outlet] = each.uses.get(self.outlet, 1) + 1
                waiting += each.predecessors
        return made, sources

    @property
    def placement(self) -> Placement:
        """Where it stands."""
        sources: dict[str, list[str]] = {}
        operators: dict[str, list[str]] = {}
        for source in self.asked:
            sources.setdefault(source.ingest.stream.name, []).append(source.name)
        for node in self.operators:
            operators.setdefault(node.computes, []).append(node.name)
        return Placement(sources, operators)
