"""A query in the graph: which nodes are its own or shared, and what it asks of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.placement import Placement
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.in_step import Meeting
from penstock.engine.options import Enabling
from penstock.physical.plan import PhysicalPlan
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
    copies: dict[OperatorNode, str] = field(default_factory=dict)  # of state under other names

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
