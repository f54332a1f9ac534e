"""The state of those parts of a graph that belong to queries which are saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from penstock.engine.checkpoints.resuming import no_state_of, of_operator, of_source, save_operator
from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.placed_query import PlacedQuery
from penstock.engine.graph.source_node import SourceNode
from penstock.model.clock import Clock
from penstock.operators.moving import drop_all, load_moved
from penstock.state.chunks import ChunkStore, Within, required

_READING = ("sources", "readings")


class GraphState:
    """Every node is saved under its name.  A node that is gone takes its chunks along, also if
    another one has got its name meanwhile.  Nodes say themselves that they have changed."""

    def __init__(self, store: ChunkStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._saved: dict[str, GraphNode] = {}  # by how their keys begin
        self._changed: set[GraphNode] = set()

    def save(self, came: Iterable[PlacedQuery], left: Iterable[PlacedQuery]) -> None:
        """When nothing waits anywhere; with the queries that have come and left since the last
        time.  A node that still serves a query that is not saved goes on being saved, because
        another may join it."""
        for node in _nodes(left):
            if not node.outlets and self._saved.get(_key(node)) is node:
                del self._saved[_key(node)]
                self._drop_chunks(node)
        for node in _nodes(came):
            if node.outlets and self._saved.get(_key(node)) is not node:
                self._drop_chunks(node)  # of one that was here before
                self._mind(node)
                self._changed.add(node)
        changed = [node for node in self._changed if node.outlets]
        self._changed.clear()
        for node in changed:
            if isinstance(node, OperatorNode):
                save_operator(node, self._store)
            elif isinstance(node, SourceNode):
                self._save_source(node)

    def _mind(self, node: GraphNode) -> None:
        self._saved[_key(node)] = node
        node.unsaved = self._changed

    def _drop_chunks(self, node: GraphNode) -> None:
        for prefix in _prefixes(node):
            drop_all(Within(self._store, f"{prefix}/"))

    def _save_source(self, source: SourceNode) -> None:
        own = of_source(self._store, source, "sources")
        own.put("node", {"begun": source.begun, "read": source.read_in_all})
        source.ingest.save(own)
        if source.reading is not None:
            source.reading.save(of_source(self._store, source, "readings"))

    # --- loading ---------------------------------------------------------------------------------

    def load(self, placed: PlacedQuery, kinds: Mapping[str, str]) -> None:
        """Into the nodes of a query that have read nothing yet; `kinds` are the operators that have
        saved something, by name."""
        for operator in placed.operators:
            if _key(operator) not in self._saved:
                self._mind(operator)
                self._load_operator(operator, placed.copies.get(operator), kinds)
        for source in placed.sources:
            if _key(source) not in self._saved:
                self._mind(source)
                self._load_source(source)

    def _load_operator(
        self, operator: OperatorNode, copied: str | None, kinds: Mapping[str, str]
    ) -> None:
        own, name = of_operator(self._store, operator.name), copied or operator.name
        if copied is not None:
            other = of_operator(self._store, copied)
            for key in other.names():
                own.put(key, required(other, key))
        if operator.node.stateful and name not in kinds:
            raise no_state_of(operator)
        was = kinds.get(name, operator.node.operator.value)
        if load_moved(operator.operator, operator.node, was, own, self._clock):
            drop_all(own)
            operator.operator.save(own)

    def _load_source(self, source: SourceNode) -> None:
        own = of_source(self._store, source, "sources")
        node = required(own, "node")
        source.begun, source.read_before = node["begun"], node.get("read", 0)
        source.ingest.load(own)
        if source.reading is not None:
            source.reading.load(of_source(self._store, source, "readings"))


def rows_read(store: ChunkStore, source: str) -> int:
    """By all runs so far, of a source by its name."""
    return int(required(store, f"sources/{quote(source, safe='')}/node").get("read", 0))


def _nodes(queries: Iterable[PlacedQuery]) -> dict[GraphNode, None]:
    """Each once."""
    return {node: None for placed in queries for node in (*placed.operators, *placed.sources)}


def _prefixes(node: GraphNode) -> tuple[str, ...]:
    """How the keys begin that a node has in the store."""
    if isinstance(node, SourceNode):
        return tuple(f"{what}/{quote(node.name, safe='')}" for what in _READING)
    return (f"operators/{node.name}",)


def _key(node: GraphNode) -> str:
    return _prefixes(node)[0]
