"""Which nodes there are, for which queries, and what follows for the order of reading."""

from __future__ import annotations

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.placed_query import PlacedQuery
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.reading.in_step import Meeting, meetings
from penstock.runs.outlet import Outlet


class Topology:
    def __init__(self) -> None:
        self.queries: dict[Outlet, PlacedQuery] = {}
        self.sources: list[SourceNode] = []
        self.operators: list[OperatorNode] = []

    @property
    def nodes(self) -> list[GraphNode]:
        return [*self.sources, *self.operators]

    def settle(self) -> None:
        """Let all count what they have not been bothered with, because somebody wants to know."""
        for node in self.nodes:
            node.settle()

    @property
    def meetings(self) -> list[Meeting]:
        """What is read together."""
        met = [each for placed in self.queries.values() for each in placed.met]
        return meetings(self.sources, met)

    def waited_for(self) -> dict[SourceNode, list[SourceNode]]:
        """The other sources that tuples of a source are kept for, by source."""
        found: dict[SourceNode, dict[SourceNode, None]] = {each: {} for each in self.sources}
        for placed in self.queries.values():
            for sources in placed.kept_for:
                for source in sources:
                    found[source] |= dict.fromkeys(each for each in sources if each is not source)
        return {source: list(others) for source, others in found.items()}

    def in_turn(self) -> dict[SourceNode, list[SourceNode]]:
        """The sources that come before a source because a window counts rows as they arrive, one
        source after the other; not so if one of them is live, and counted as it arrives."""
        found: dict[SourceNode, list[SourceNode]] = {}
        for placed in self.queries.values():
            for met in placed.met:
                if met.in_turn and not any(scan.ingest.live for scan in met.scans):
                    for place, scan in enumerate(met.scans):
                        found.setdefault(scan, []).extend(met.scans[:place])
        return found
