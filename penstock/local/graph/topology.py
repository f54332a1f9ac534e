"""Names of nodes, where queries stand in the graph, and the topology that follows from them.

A node is named by what it computes over which streams, whichever query asks for it.  State is saved
under these names, so they do not say how it is computed, nor what columns are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2s

from penstock.local.graph.node import GraphNode
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.graph.source_node import Meeting, SourceNode, meetings
from penstock.local.graph_options import Enabling
from penstock.optimizer.sharing import shareable_panes
from penstock.plan.identity import meaning
from penstock.plan.nodes.aggregation import SharedPanes, WindowAggregate, WindowsOfPanes
from penstock.plan.nodes.node import Node
from penstock.plan.physical import OperatorKind, PhysicalNode, PhysicalPlan
from penstock.runs.answer import Outlet

_DIGITS = 4  # bytes


def name_of(node: PhysicalNode, producers: Sequence[GraphNode]) -> str:
    """Name a node.  A stateful node, or one where tuples meet, is named by the meaning of what it
    computes; all others by the nodes below them."""
    logical = node.logical
    if node.operator is OperatorKind.ORDER:
        return order_name(logical)
    if node.stateful or len(node.ports) > 1 or node.operator is OperatorKind.STAMP:
        return _named(type(logical).__name__, meaning(logical))
    below = [each.name for each in producers]
    return _named(type(logical).__name__, [*logical.details(), *below])


def order_name(query: Node) -> str:
    """Name the operator that puts the rows of a query in order."""
    return _named("Order", meaning(query.inputs[0]))


def windows_of_panes_name(aggregate: WindowAggregate) -> str:
    """Name the operator that makes the windows of an aggregation from shared panes."""
    return _named(WindowsOfPanes.__name__, meaning(aggregate))


def _named(kind: str, lines: Sequence[str]) -> str:
    digest = blake2s("\n".join(lines).encode(), digest_size=_DIGITS)
    return f"{kind}-{digest.hexdigest()}"


# The placement of a query in a graph that was saved, by the names of its nodes.
#
# State is found again under these names.  Two queries may compute the same and yet have nodes of
# their own, because one of them came later; only the names tell.


@dataclass
class Placement:
    """Names of the nodes of a query: `sources` by stream, in the order in which the query reads
    them, and `operators` by what they compute."""

    sources: dict[str, list[str]] = field(default_factory=dict)
    operators: dict[str, list[str]] = field(default_factory=dict)

    def copy(self) -> Placement:
        """Copy, whose names can be taken one by one."""
        return Placement(
            {stream: list(names) for stream, names in self.sources.items()},
            {computes: list(names) for computes, names in self.operators.items()},
        )

    @property
    def names(self) -> set[str]:
        every = (*self.sources.values(), *self.operators.values())
        return {name for names in every for name in names}

    @property
    def source_names(self) -> set[str]:
        return {name for names in self.sources.values() for name in names}

    def source(self, stream: str) -> str | None:
        """Take the name of the next source that the query had for a stream; None if there is
        none."""
        return _next(self.sources, stream)

    def operator(self, computes: str) -> str | None:
        return _next(self.operators, computes)


def _next(names: dict[str, list[str]], key: str) -> str | None:
    return names[key].pop(0) if names.get(key) else None


# A query in the graph: its nodes, shared or not, and its demands on them.


@dataclass
class PlacedQuery:
    """A query in the graph.  Its nodes are in order from the sink to the sources."""

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
        """Remember the node of a part that the plan computes once for several places."""
        if made.node.logical in self.plan.shared:
            self.shared.setdefault(made.node.logical, (made, sources))

    def computed_already(self, node: PhysicalNode) -> tuple[OperatorNode, list[SourceNode]] | None:
        """Node for a part of the plan that has been built already, with the sources below it, or
        None.  All nodes of that part are used once more.  A part that was saved apart stays
        apart."""
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
        """Names of the nodes of the query, to be saved."""
        sources: dict[str, list[str]] = {}
        operators: dict[str, list[str]] = {}
        for source in self.asked:
            sources.setdefault(source.ingest.stream.name, []).append(source.name)
        for node in self.operators:
            operators.setdefault(node.computes, []).append(node.name)
        return Placement(sources, operators)


# The nodes of all queries, and the order of reading that follows from them.


class Topology:
    """The nodes of the graph by query, and the order in which their sources have to be read."""

    def __init__(self) -> None:
        self.queries: dict[Outlet, PlacedQuery] = {}
        self.sources: list[SourceNode] = []
        self.operators: list[OperatorNode] = []

    @property
    def nodes(self) -> list[GraphNode]:
        return [*self.sources, *self.operators]

    def settle(self) -> None:
        """Let all filters count the rows that bypassed them, before counters are read."""
        for node in self.nodes:
            node.settle()

    @property
    def meetings(self) -> list[Meeting]:
        """Groups of sources that are read together."""
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
