"""The names that a database knows: streams, tables, queries, views and user-defined functions.
Case does not matter.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.errors import BindError, PenstockError, Span, nearest, shortened
from penstock.functions.aggregate_functions import (
    AGGREGATES,
    ALIASES,
    REWRITTEN,
    AggregateFunction,
    aggregate,
)
from penstock.functions.scalar_functions import scalar
from penstock.functions.user_functions import UserFunction
from penstock.model.ticks import Length
from penstock.plan.identity import SourceText
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import scans_of
from penstock.plan.streams import StreamDefinition


@dataclass(frozen=True, slots=True)
class RunningAnswers:
    """EMIT CHANGES: results may change for ever; groups and tuples without activity are kept for
    `keep_for`.
    """

    keep_for: Length | None = None


class Surroundings(Protocol):
    """Names outside the database: views and functions of a Spark session."""

    def relation(self, name: str) -> StreamDefinition | None: ...

    def relations(self) -> list[str]: ...

    def function(self, name: str) -> UserFunction | None: ...

    def functions(self) -> list[str]: ...


@dataclass
class Catalog:
    """Names of a database, by folded case, with their definitions."""

    streams: dict[str, StreamDefinition] = field(default_factory=dict)  # and tables
    queries: dict[str, tuple[str, QueryPlan]] = field(default_factory=dict)  # name as written, plan
    aggregates: dict[str, AggregateFunction] = field(default_factory=dict)
    texts: dict[str, SourceText] = field(default_factory=dict)  # SQL of streams, tables and queries
    views: dict[str, tuple[str, QueryPlan]] = field(default_factory=dict)  # expanded where read
    functions: dict[str, UserFunction] = field(default_factory=dict)  # scalar ones
    running: RunningAnswers | None = None  # EMIT CHANGES: results that never complete are allowed
    around: Surroundings | None = None  # consulted for names that are unknown here
    complete: bool = False  # whether only tables are read, so that results are complete
    # sub-queries of the query that is being bound, with their plans or errors: an expression may be
    # bound several times, and sub-queries may be nested
    bound: dict[Hashable, tuple[object, QueryPlan | PenstockError]] | None = field(
        default=None, compare=False, repr=False
    )

    def beside(self) -> Catalog:
        """Catalog with the same streams, tables and functions, but without queries."""
        own, around = self.functions, self.around
        return Catalog(self.streams, {}, self.aggregates, functions=own, around=around)

    def add_stream(self, stream: StreamDefinition, span: Span | None = None) -> None:
        if not stream.name:
            raise BindError(f"a {stream.word} needs a name", span=span)
        self.refuse_taken(stream.name, span)
        self.streams[stream.name.casefold()] = stream

    def add_query(self, name: str, query: QueryPlan, span: Span | None = None) -> None:
        self.refuse_taken(name, span)
        self.queries[name.casefold()] = (name, query)

    def add_view(
        self, name: str, query: QueryPlan, replaces: bool = False, span: Span | None = None
    ) -> None:
        if not (replaces and name.casefold() in self.views):
            self.refuse_taken(name, span)
        self.views[name.casefold()] = (name, query)

    def hiding(self, name: str, query: QueryPlan) -> Catalog:
        """Copy of the catalog in which a name stands for the query, and hides any other use of the
        name.
        """
        key = name.casefold()
        streams = {other: each for other, each in self.streams.items() if other != key}
        queries = {other: each for other, each in self.queries.items() if other != key}
        texts = {other: each for other, each in self.texts.items() if other != key}
        views = {**self.views, key: (name, query)}
        return replace(self, streams=streams, queries=queries, texts=texts, views=views)

    def add_aggregate(self, function: AggregateFunction) -> None:
        self._refuse_known_function(function.name)
        self.aggregates[function.name.casefold()] = function

    def add_function(self, function: UserFunction) -> None:
        self._refuse_known_function(function.name)
        self.functions[function.name.casefold()] = function

    def _refuse_known_function(self, name: str) -> None:
        built_in = aggregate(name) is not None or scalar(name) is not None
        if built_in or name.casefold() in REWRITTEN:  # which the binder would make another one of
            raise BindError(f"{name} is a built-in function", hint="another name")
        for kind, known in (("aggregate", self.aggregates), ("function", self.functions)):
            if name.casefold() in known:
                raise BindError(f"the {kind} {name} exists already", hint="another name")

    def function(self, name: str) -> UserFunction | None:
        """User-defined scalar function; those of a Spark session hide no built-in one."""
        own = self.functions.get(name.casefold())
        if own is not None or self.around is None or scalar(name) is not None:
            return own
        return self.around.function(name)

    @property
    def function_names(self) -> list[str]:
        return [*self.functions, *([] if self.around is None else self.around.functions())]

    def aggregate(self, name: str) -> AggregateFunction | None:
        known = REWRITTEN.get(name.lower(), name)
        return self.aggregates.get(name.casefold()) or aggregate(known)

    @property
    def aggregate_names(self) -> list[str]:
        """All names of aggregates, built-in and user-defined, with aliases."""
        return [*AGGREGATES, *ALIASES, *REWRITTEN, *self.aggregates]

    def relation(self, name: str, span: Span | None = None) -> StreamDefinition | QueryPlan:
        """Stream, table, view or query of that name."""
        key = name.casefold()
        if key in self.streams:
            return self.streams[key]
        if key in self.queries:
            return self.queries[key][1]
        if key in self.views:
            return self.views[key][1]
        found = None if self.around is None else self.around.relation(name)
        if found is not None:
            return found
        known = self.relations
        close = nearest(name, known)
        raise BindError(
            f"there is no stream, table, view or query called {shortened(name, 80)!r}",
            span=span,
            expected=f"one of {', '.join(sorted(known))}" if known else None,
            hint=close[0] if close else "CREATE STREAM first",
        )

    def drop_stream(self, name: str, span: Span | None = None, is_table: bool = False) -> None:
        found = self.streams.get(name.casefold())
        if found is None or found.is_table is not is_table:
            known = [each.name for each in self.streams.values() if each.is_table is is_table]
            error = self._missing("table" if is_table else "stream", name, known, span)
            if found is not None:
                error.hint = f"DROP {found.word.upper()} {found.name}"
            raise error
        readers = [
            (kind, reader)
            for kind, known in (("QUERY", self.queries), ("VIEW", self.views))
            for reader, query in known.values()
            if any(scan.stream == found for scan in scans_of(query))
        ]
        if readers:
            raise BindError(
                f"{found.word} {found.name} is read by {', '.join(name for _, name in readers)}",
                span=span,
                hint=f"DROP {' '.join(readers[0])} first",
            )
        del self.streams[name.casefold()]
        self.texts.pop(name.casefold(), None)

    def drop_query(self, name: str, span: Span | None = None) -> None:
        if name.casefold() not in self.queries:
            raise self._missing("query", name, [n for n, _ in self.queries.values()], span)
        del self.queries[name.casefold()]
        self.texts.pop(name.casefold(), None)

    def drop_view(self, name: str, span: Span | None = None) -> None:
        if name.casefold() not in self.views:
            raise self._missing("view", name, [n for n, _ in self.views.values()], span)
        del self.views[name.casefold()]

    @property
    def relations(self) -> list[str]:
        """Everything that can stand in FROM."""
        streams = [stream.name for stream in self.streams.values()]
        asked = [name for name, _ in (*self.queries.values(), *self.views.values())]
        return [*streams, *asked, *([] if self.around is None else self.around.relations())]

    def refuse_taken(self, name: str, span: Span | None) -> None:
        if any(name.casefold() in known for known in (self.streams, self.queries, self.views)):
            raise BindError(
                f"{name!r} exists already", span=span, hint="DROP it first, or take another name"
            )

    def _missing(self, kind: str, name: str, known: list[str], span: Span | None) -> BindError:
        close = nearest(name, known)
        return BindError(
            f"there is no {kind} called {shortened(name, 80)!r}",
            span=span,
            expected=f"one of {', '.join(sorted(known))}" if known else None,
            hint=close[0] if close else None,
        )
