"""What a checkpoint says of a query on a live engine: enough to bring it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from penstock.engine.graph.placed_query import PlacedQuery
from penstock.engine.graph.placement import Placement
from penstock.plan.identity.belonging import check_algorithms, check_query
from penstock.plan.identity.identity import algorithms, identity, without_windows
from penstock.plan.identity.source_text import SourceText
from penstock.plan.nodes.query import QueryPlan
from penstock.state.chunks import Tree


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """The lines that say what a stream or table is, and the SQL that has made it, if it was SQL."""

    lines: list[str]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """The SQL of a query, and its streams by name."""

    text: SourceText
    streams: Mapping[str, StreamRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """`number` tells queries apart that have had the same name.  `identity` and `algorithms` are
    what saved state depends on; `kinds` are the operators, by the names of their nodes."""

    number: int
    name: str
    definition: Definition
    identity: list[str]
    algorithms: list[str]
    placement: Placement
    kinds: Mapping[str, str]
    simplified: list[str] | None = None  # by which rules its plan was; None: not remembered
    settings: Mapping[str, str] = field(default_factory=dict)
    state: str = "running"
    error: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it: it has failed, or was closed for good."""
        return self.error is not None or self.state == "ended"

    @property
    def where(self) -> dict[str, Tree]:
        """Where it stood in the graph; see `placed_as`."""
        return {
            "identity": self.identity,
            "algorithms": self.algorithms,
            "placement": self.placement,
            "kinds": self.kinds,
            "simplified": self.simplified,
        }

    def check(self, query: QueryPlan) -> None:
        """Whether the state is that of a query."""
        where = f"the saved state of query {self.name}"
        check_query(self.identity, identity(query), where)
        check_algorithms(
            without_windows(self.algorithms), without_windows(algorithms(query)), where
        )

    def save(self) -> Tree:
        return asdict(self)

    @staticmethod
    def load(saved: Tree) -> QueryRecord:
        told = saved["definition"]
        streams = {name: StreamRecord(**each) for name, each in told["streams"].items()}
        definition = Definition(SourceText.load(told["text"]), streams)
        placement = Placement(**saved["placement"])
        return QueryRecord(**saved | {"definition": definition, "placement": placement})


def placed_as(placed: PlacedQuery) -> dict[str, Tree]:
    """What a record says of where a query stands in the graph."""
    query = placed.plan.query
    return {
        "identity": identity(query),
        "algorithms": algorithms(query),
        "placement": placed.placement,
        "kinds": kinds_of(placed),
        "simplified": list(placed.plan.simplified),
    }


def kinds_of(placed: PlacedQuery) -> dict[str, str]:
    """Its operators, by the names of their nodes."""
    return {node.name: node.node.operator.value for node in placed.operators}
