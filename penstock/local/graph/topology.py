"""Names of nodes: what is computed, over which streams, whichever query asks for it.

State is saved under them, so they do not say how it is computed, nor what columns are called.
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
    """Where tuples meet, what is saved has a meaning of its own; all others are named by what
    stands below them."""
    logical = node.logical
    if node.operator is OperatorKind.ORDER:
        return order_name(logical)
    if node.stateful or len(node.ports) > 1 or node.operator is OperatorKind.STAMP:
        return _named(type(logical).__name__, meaning(logical))
    below = [each.name for each in producers]
    return _named(type(logical).__name__, [*logical.details(), *below])


def order_name(query: Node) -> str:
    """Of the operator that puts the rows of a query in order."""
    return _named("Order", meaning(query.inputs[0]))


def windows_of_panes_name(aggregate: WindowAggregate) -> str:
    """Of the operator that makes the windows of an aggregation of panes that it shares."""
    return _named(WindowsOfPanes.__name__, meaning(aggregate))


def _named(kind: str, lines: Sequence[str]) -> str:
    digest = blake2s("\n".join(lines).encode(), digest_size=_DIGITS)
    return f"{kind}-{digest.hexdigest()}"


# Where a query stood in a graph that was saved, by the names of its nodes.
#
# State is found under these names again.  Two queries may ask for the same and yet have nodes of
# their own, because one of them came later; only the names tell.


@dataclass
class Placement:
    """`sources` are the names of those that a query reads, by stream and in the order in which it
    asks for them; `operators` those of its operators, by what they compute."""

    sources: dict[str, list[str]] = field(default_factory=dict)
    operators: dict[str, list[str]] = field(default_factory=dict)

    def copy(self) -> Placement:
        """One whose names can be taken one by one."""
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
        """The next one that the query asks for; None if it had none."""
        return _next(self.sources, stream)

    def operator(self, computes: str) -> str | None:
        return _next(self.operators, computes)


def _next(names: dict[str, list[str]], key: str) -> str | None:
    return names[key].pop(0) if names.get(key) else None


# A query in the graph: which nodes are its own or shared, and what it asks of them.


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


# Which nodes there are, for which queries, and what follows for the order of reading.


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
