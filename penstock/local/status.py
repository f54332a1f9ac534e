"""Status of the query graph: its nodes, the arcs between them, and the queries that it answers.

Counters are read without a lock; nothing here is on the path of a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

from penstock.kernel.operator import Metrics, Traffic
from penstock.local.graph.node import GraphNode
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.graph.query_graph import QueryGraph
from penstock.local.graph.source_node import SourceNode
from penstock.local.graph.topology import PlacedQuery
from penstock.runs.answer import Decision, LatencySummary, Outlet
from penstock.runs.status import SourceStatus, bound_texts

_SECOND = 1_000_000_000  # nanoseconds


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A source or an operator, with its counts since it was made."""

    name: str
    operator: str  # its kind; "scan" of a source
    flow: Traffic
    held: Metrics
    seconds: float  # that it has been there
    queries: tuple[str, ...]  # that it serves

    @property
    def rows_per_second(self) -> float:
        return self.flow.rows_in / self.seconds if self.seconds else 0.0

    @property
    def selectivity(self) -> float | None:
        """Rows that came out for each that went in."""
        return self.flow.rows_out / self.flow.rows_in if self.flow.rows_in else None

    @property
    def time_per_tuple(self) -> float | None:
        """Time per tuple in microseconds, or None."""
        return self.flow.nanoseconds / self.flow.rows_in / 1000 if self.flow.rows_in else None

    @property
    def busy(self) -> float:
        """Share of the time in which the node worked."""
        return self.flow.nanoseconds / _SECOND / self.seconds if self.seconds else 0.0

    @property
    def idle_waiting(self) -> float:
        """Share of the time in which the node waited idly: it held rows that only progress could
        release, and none came."""
        return self.flow.waiting / _SECOND / self.seconds if self.seconds else 0.0

    def since(self, earlier: NodeStatus) -> NodeStatus:
        """Difference between two statuses of a node."""
        now, then = self.flow, earlier.flow
        flow = Traffic(
            now.rows_in - then.rows_in,
            now.rows_out - then.rows_out,
            now.late - then.late,
            now.calls - then.calls,
            now.nanoseconds - then.nanoseconds,
            now.waiting - then.waiting,
        )
        return replace(self, flow=flow, seconds=self.seconds - earlier.seconds)


@dataclass(frozen=True, slots=True)
class ArcStatus:
    """Rows that wait between two nodes.  At a fork, the peak is that of all arcs that begin there,
    because they share one buffer."""

    begin: str
    end: str
    waiting: int
    peak: int


@dataclass(frozen=True, slots=True)
class AnswerStatus:
    """Rows that a query has emitted, and their latency from the arrival of the input that released
    them."""

    name: str
    rows: int
    late: int
    rejected: int
    latency: LatencySummary
    nodes: tuple[str, ...]  # from the sink to the sources
    waiting: int = 0  # rows that its subscribers have not been handed yet
    dropped: int = 0  # rows that there was no room for


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """A snapshot of the graph: nodes, arcs, progress of sources, answers of queries, decisions."""

    nodes: tuple[NodeStatus, ...]  # sources first
    arcs: tuple[ArcStatus, ...]
    sources: tuple[SourceStatus, ...]
    answers: tuple[AnswerStatus, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)  # rows that came too fast, by source
    decisions: tuple[Decision, ...] = ()  # operators that were exchanged, the last at the end

    def node(self, name: str) -> NodeStatus | None:
        return next((each for each in self.nodes if each.name == name), None)

    @property
    def waiting(self) -> int:
        """Number of rows that wait between nodes."""
        return sum(each.waiting for each in self.arcs)

    def since(self, earlier: GraphStatus) -> GraphStatus:
        """Difference between two statuses of the graph; nodes that have come in between are
        included unchanged."""
        then = {each.name: each for each in earlier.nodes}
        nodes = (each.since(then[each.name]) if each.name in then else each for each in self.nodes)
        return replace(self, nodes=tuple(nodes))


def graph_status(
    graph: QueryGraph,
    names: Mapping[Outlet, str],
    dropped: Mapping[str, int] | None = None,
    decisions: Iterable[Decision] = (),
) -> GraphStatus:
    """Take a snapshot of the graph.  `names` are those of the queries, by outlet."""
    now = perf_counter_ns()
    graph.settle()
    nodes: list[GraphNode] = [*graph.sources, *graph.operators]
    return GraphStatus(
        tuple(_node_status(each, now, names) for each in nodes),
        tuple(
            ArcStatus(each.producer.name, node.name, each.reader.rows, each.reader.peak)
            for node in list(graph.operators)
            for each in node.inputs
        ),
        tuple(map(source_status, list(graph.sources))),
        tuple(_answer_status(placed, names) for placed in list(graph.queries.values())),
        dropped or {},
        tuple(decisions),
    )


def _node_status(node: GraphNode, now: int, names: Mapping[Outlet, str]) -> NodeStatus:
    queries = tuple(names[outlet] for outlet in list(node.outlets) if outlet in names)
    if isinstance(node, OperatorNode):
        kind, flow, held = node.measured.name, node.measured.flow, node.operator.metrics()
    else:
        assert isinstance(node, SourceNode)
        kind, flow, held = "scan", node.flow, Metrics()
    seconds = (now - node.began) / _SECOND
    return NodeStatus(node.name, kind, replace(flow), held, seconds, queries)


def _answer_status(placed: PlacedQuery, names: Mapping[Outlet, str]) -> AnswerStatus:
    outlet = placed.outlet
    return AnswerStatus(
        names.get(outlet, ""),
        outlet.written,
        outlet.late,
        outlet.rejected,
        outlet.latencies.summary(),
        tuple(node.name for node in (*placed.operators, *placed.sources)),
        outlet.waiting,
        outlet.dropped,
    )


def source_status(scan: SourceNode) -> SourceStatus:
    """Progress of a stream, and the sub-sources that hold it back."""
    ingest = scan.ingest
    low, high = ingest.low, ingest.high
    names, others = ([], 0) if ingest.ended else ingest.waits_for
    low_text, high_text = bound_texts(ingest.stream, low, high).values()
    name, ended = ingest.stream.name, ingest.ended
    return SourceStatus(name, low, high, ended, names, low_text, high_text, others)
