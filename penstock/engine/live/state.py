"""The state of those parts of a graph that belong to queries which are saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.placed_query import PlacedQuery
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.resuming import no_state_of, of_operator, of_source, save_operator
from penstock.model.clock import Clock
from penstock.operators.moving import drop_all, load_moved
from penstock.state.chunks import ChunkStore, required

_READING = ("sources", "readings")


class GraphState:
    """Every node is saved under its name.  A node that is gone takes its chunks along, also if
    another one has got its name meanwhile."""

    def __init__(self, store: ChunkStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._saved: dict[str, GraphNode] = {}  # by how their keys begin
        self._calls: dict[GraphNode, int] = {}  # of operators, at the last save

    def save(self, queries: Iterable[PlacedQuery]) -> None:
        """When nothing waits anywhere."""
        placed = list(queries)
        operators = dict.fromkeys(node for each in placed for node in each.operators)
        sources = dict.fromkeys(node for each in placed for node in each.sources)
        self._forget_others({_key(node): node for node in (*operators, *sources)})
        for operator in operators:
            calls = operator.measured.flow.calls
            if operator.exchanged or self._calls.get(operator) != calls:  # it has worked
                save_operator(operator, self._store)
                self._calls[operator] = calls
        for source in sources:
            self._save_source(source)

    def _save_source(self, source: SourceNode) -> None:
        own = of_source(self._store, source, "sources")
        own.put("node", {"begun": source.begun})
        source.ingest.save(own)
        if source.reading is not None:
            source.reading.save(of_source(self._store, source, "readings"))

    def _forget_others(self, current: dict[str, GraphNode]) -> None:
        others = [node for key, node in self._saved.items() if current.get(key) is not node]
        gone = {prefix for node in others for prefix in _prefixes(node)}
        if gone:
            for name in list(self._store.names()):
                if "/".join(name.split("/")[:2]) in gone:
                    self._store.drop(name)
        self._saved = current
        self._calls = {node: calls for node, calls in self._calls.items() if node not in others}

    # --- loading ---------------------------------------------------------------------------------

    def load(self, placed: PlacedQuery, kinds: Mapping[str, str]) -> None:
        """Into the nodes of a query that have read nothing yet; `kinds` are the operators that have
        saved something, by name."""
        for operator in placed.operators:
            if _key(operator) not in self._saved:
                self._saved[_key(operator)] = operator
                self._load_operator(operator, placed.copies.get(operator), kinds)
        for source in placed.sources:
            if _key(source) not in self._saved:
                self._saved[_key(source)] = source
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
        source.begun = required(own, "node")["begun"]
        source.ingest.load(own)
        if source.reading is not None:
            source.reading.load(of_source(self._store, source, "readings"))


def _prefixes(node: GraphNode) -> tuple[str, ...]:
    """How the keys begin that a node has in the store."""
    if isinstance(node, SourceNode):
        return tuple(f"{what}/{quote(node.name, safe='')}" for what in _READING)
    return (f"operators/{node.name}",)


def _key(node: GraphNode) -> str:
    return _prefixes(node)[0]
