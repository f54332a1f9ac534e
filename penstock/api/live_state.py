"""State of a live engine around its graph: texts of definitions, outputs and subscribers of
queries, and the queries that a checkpoint restores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.errors import (
    BindError,
    CheckpointError,
    EngineError,
    PenstockError,
    SinkError,
    Span,
    nearest,
)
from penstock.io.sinks.sink import Backlog, Kept, QueuePolicy, SubscriberQueue, Subscribers
from penstock.local.live.queries import Definition, QueryRecord, StreamRecord
from penstock.plan.catalog import Catalog
from penstock.plan.identity import SourceText, differences, stream_identity
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import scans_of
from penstock.plan.streams import StreamDefinition
from penstock.runs.answer import IsolatedOutlet, refuse_for_good
from penstock.runs.delivery import SIDES, Delivery, SinkLike, place_of
from penstock.sql.binder.definitions import bind_stream
from penstock.sql.binder.select import bind_query
from penstock.sql.parser.statements import parse_script, pointing_at, pointing_into
from penstock.sql.syntax import CreateQuery, CreateStream, CreateView, IntoPlaces, Name, Split

if TYPE_CHECKING:
    from penstock.api.database import Database


@dataclass
class RememberingCatalog(Catalog):
    """Records which named queries are read while a statement is bound."""

    asked: dict[str, SourceText] = field(default_factory=dict)

    @staticmethod
    def of(catalog: Catalog) -> RememberingCatalog:
        return RememberingCatalog(
            catalog.streams,
            catalog.queries,
            catalog.aggregates,
            catalog.texts,
            catalog.views,
            catalog.functions,
            around=catalog.around,
        )

    def relation(self, name: str, span: Span | None = None) -> StreamDefinition | QueryPlan:
        found, key = super().relation(name, span), name.casefold()
        if isinstance(found, QueryPlan) and key in self.texts:  # those of WITH are in its own
            self.asked[key] = self.texts[key]
        return found


def text_of(
    statement: CreateStream | CreateView | CreateQuery | Split,
    script: str,
    catalog: RememberingCatalog,
) -> SourceText:
    """Take a definition out of its script, with the named queries that it reads."""
    match statement:
        case CreateView():
            return SourceText(script[statement.span.start : statement.span.end], catalog.asked)
        case CreateStream():
            words = "CREATE TABLE" if statement.is_table else "CREATE STREAM"
        case CreateQuery():
            words = "CREATE QUERY"
        case Split():
            words = "SPLIT"
    own = f"{words} {script[statement.span.start : statement.span.end]}"
    return SourceText(own, catalog.asked)


def definition_of(query: QueryPlan, text: SourceText, catalog: Catalog) -> Definition:
    """Collect everything that is needed to bind a query again."""
    scanned = [scan.stream for scan in scans_of(query)]
    streams = {stream.name: stream for stream in scanned if not stream.written}
    records = {}
    for name, stream in streams.items():
        made_by = catalog.texts.get(name.casefold())
        sql = None if made_by is None else made_by.text
        records[name] = StreamRecord(stream_identity(stream), sql)
    return Definition(text, records)


# Outputs of queries on a live engine, for rows, late tuples and rejected rows: files that SQL or a
# program has named, and subscribers that come while they run.

Sinks: TypeAlias = tuple[SinkLike | None, SinkLike | None, SinkLike | None]
Paths: TypeAlias = tuple[str | None, str | None, str | None]
"""For rows, late tuples and rejected rows."""

NOWHERE: Sinks = (None, None, None)


@dataclass
class Fans:
    """Subscribers of one query: to its rows, its late tuples, and its rejected rows."""

    rows: Subscribers
    late: Subscribers
    rejected: Subscribers
    backlog: Backlog

    @staticmethod
    def of(sinks: Sinks, delivery: Delivery, query: QueryPlan, policy: QueuePolicy) -> Fans:
        """Make the subscribers of a query, with the sinks that are named, if any. Sinks of the
        program have queues."""
        asked = [Subscribers() if each is None else each for each in sinks]
        (target,) = delivery.targets([asked])
        if query.revises or query.signed:
            refuse_for_good(target.rows)
        backlog = Backlog()
        made: list[Subscribers] = []
        for given, sink in zip(asked, (target.rows, target.late, target.rejected), strict=True):
            assert sink is not None
            if isinstance(sink, Subscribers):
                made.append(sink)
            elif isinstance(given, str | Path | Kept):
                made.append(Subscribers(sink))
            else:
                refuse_to_drop(policy, query, SIDES[len(made)])
                made.append(Subscribers(SubscriberQueue(sink, policy, backlog)))
        rows, late, rejected = made
        return Fans(rows, late, rejected, backlog)

    def outlet(self, query: QueryPlan) -> IsolatedOutlet:
        outlet = IsolatedOutlet(query, self.rows, self.late, self.rejected)
        outlet.backlog = self.backlog
        return outlet

    def side(self, name: str) -> Subscribers:
        if name not in SIDES:
            close = nearest(name, SIDES)
            raise EngineError(
                f"a query gives out no {name!r}",
                expected=" or ".join(map(repr, SIDES)),
                hint=close[0] if close else None,
            )
        found: Subscribers = getattr(self, name)
        return found


def refuse_to_drop(policy: QueuePolicy, query: QueryPlan, side: str) -> None:
    """Refuse to drop rows of a query that retracts: a subscriber that misses a retraction has a
    wrong result, not only less of it."""
    if policy.drops and side == SIDES[0] and (query.revises or query.signed):
        raise SinkError(
            "rows of the query may be retracted, so a subscriber must not miss any",
            expected="overload='block'",
            hint="leave EMIT CHANGES, EMIT EARLY and LATE AMEND out, or let it block",
        )


@dataclass
class LiveOutputs:
    """Files that queries write. The database may write where it may read, if not everything is
    allowed."""

    database: Database
    kept: bool  # whether there is a checkpoint
    _taken: dict[str, list[Path]] = field(default_factory=dict)  # by query

    def path(self, into: Name) -> str:
        """Resolve a path. A slash at its end is kept: it marks a directory."""
        base = self.database.base or Path.cwd()
        return f"{base / into.text}{'/' * into.text.endswith('/')}"

    def paths(self, places: IntoPlaces) -> Paths:
        return _each(places, self.path)

    def places(self, places: IntoPlaces, name: str) -> Paths:
        """Paths that a query may write to."""
        return _each(places, lambda into: self._place(into, name))

    def _place(self, into: Name, name: str) -> str:
        """Path of one output. A directory needs a checkpoint, because its files appear when they
        are saved."""
        path = self.path(into)
        directory = path.endswith("/") or not Path(path).suffix or Path(path).is_dir()
        if directory and not self.kept:
            raise BindError(
                f"{into.text!r} names a directory",
                span=into.span,
                expected="a file, whose ending tells the format; or a checkpoint",
                hint="INTO 'rows.jsonl', or db.live(checkpoint=…)",
            )
        allowed = self.database.allowed
        if allowed is not None and not allowed.file(Path(path)):
            raise BindError(
                f"{into.text!r} may not be written",
                span=into.span,
                expected=f"what is allowed: {allowed}",
            )
        with pointing_at(into.span):
            self.refuse_taken(name, (path,))
        return path

    def refuse_taken(self, name: str, sinks: Sequence[SinkLike | None]) -> None:
        """Refuse a place that another query writes to."""
        for sink in sinks:
            place = place_of(sink)
            taken = [other for other, paths in self._taken.items() if place in paths]
            if taken and taken[0].casefold() != name.casefold():
                raise SinkError(
                    f"the rows of query {taken[0]} go to {str(sink)!r}",
                    expected="a place of its own for every query",
                )

    def take(self, name: str, sinks: Sinks) -> None:
        paths = [place for place in map(place_of, sinks) if place is not None]
        if paths:
            self._taken[name] = paths

    def forget(self, name: str) -> None:
        self._taken.pop(name, None)


def check_apart(places: IntoPlaces) -> None:
    """Refuse one place for rows, late tuples and rejected rows, whose columns differ."""
    seen: dict[str, Name] = {}
    for each in (places.rows, places.late, places.rejected):
        if each is not None and each.text in seen:
            raise BindError(
                f"{each.text!r} is said twice",
                span=each.span,
                expected="a place each for rows, late tuples and rejected rows",
            )
        if each is not None:
            seen[each.text] = each


def _each(places: IntoPlaces, path: Callable[[Name], str]) -> Paths:
    rows, late, rejected = (
        None if each is None else path(each) for each in (places.rows, places.late, places.rejected)
    )
    return rows, late, rejected


def closing(delivery: Delivery) -> Callable[[BaseException | None], None]:
    """Make the callback for the end of a query: files are put into place unless an error has ended
    it."""

    def close(error: BaseException | None) -> None:
        kind: Any = type(error) if error else None
        delivery.__exit__(kind, error, None)

    return close


# Restoring the streams and queries of a checkpoint into a database.


@dataclass
class Restored:
    """Streams and queries that a checkpoint has restored, by key. When the program or script that
    made them is run again, its statements for them are skipped, once."""

    streams: set[str] = field(default_factory=set)
    queries: dict[str, tuple[QueryPlan, Paths]] = field(default_factory=dict)

    def has_stream(self, statement: CreateStream, database: Database) -> bool:
        key = statement.name.text.casefold()
        if key not in self.streams:
            return False
        stream = bind_stream(statement, database.catalog, database.base, database.allowed)
        if stream != database.catalog.streams[key]:
            raise _different_definition(stream.word, statement.name)
        self.streams.discard(key)
        return True

    def has_query(
        self, statement: CreateQuery, catalog: Catalog, paths: Callable[[IntoPlaces], Paths]
    ) -> bool:
        key = statement.name.text.casefold()
        if key not in self.queries:
            return False
        bound = bind_query(statement.query, catalog)
        if (bound, paths(statement.into)) != self.queries[key]:
            raise _different_definition("query", statement.name)
        del self.queries[key]
        return True


def streams_again(record: QueryRecord, database: Database) -> set[str]:
    """Create those streams of a query that the database does not have, from the SQL that has made
    them. Returns their keys. The others must be as they were."""
    made = set()
    for name, saved in record.definition.streams.items():
        key = name.casefold()
        if key not in database.catalog.streams:
            if saved.text is None:
                raise CheckpointError(
                    f"query {record.name} of the checkpoint reads {name}, which is not there",
                    expected="the streams and tables that the queries of the checkpoint read",
                    hint=f"db.stream({name!r}, …) before db.live(checkpoint=…)",
                )
            database.sql(saved.text)
            made.add(key)
        own = stream_identity(database.catalog.streams[key])
        if own != saved.lines:
            shown = "".join(f"\n  {line}" for line in differences(saved.lines, own))
            raise CheckpointError(
                f"{name} has changed since query {record.name} was saved:{shown}",
                expected="the columns and promises that it had (lines with -)",
                hint="make it as it was, or start over with another checkpoint",
            )
    return made


def bound_again(source: SourceText, name: str, database: Database) -> QueryPlan:
    """Bind a saved statement again, over the streams of the database and the queries that it
    reads."""
    beside = database.beside()
    for each, text in source.reads.items():
        beside.catalog.queries[each.casefold()] = (each, bound_again(text, each, database))
        beside.catalog.texts[each.casefold()] = text
    (statement,) = parse_script(source.text)
    if isinstance(statement, CreateQuery):
        statement = replace(statement, into=IntoPlaces())
    with pointing_into(source.text):
        beside.execute(statement, source.text)
    found = beside.catalog.relation(name)
    assert isinstance(found, QueryPlan)
    return found


def check_can_come_back(source: SourceText, name: Name) -> None:
    """Refuse a statement that cannot be bound again from its text and those of the queries that it
    reads."""
    for each in (source, *source.reads.values()):
        try:
            parse_script(each.text)
        except PenstockError:
            raise BindError(
                f"query {name.text} has parameters, and a checkpoint keeps the text of a query",
                span=name.span,
                hint="write the values into the text",
            ) from None


def places_of(source: SourceText) -> IntoPlaces:
    """Outputs that a saved CREATE QUERY names."""
    (statement,) = parse_script(source.text)
    assert isinstance(statement, CreateQuery)
    return statement.into


def _different_definition(word: str, name: Name) -> BindError:
    return BindError(
        f"{word} {name.text} is back from the checkpoint, and was something else",
        span=name.span,
        expected="the statement that has made it, or none",
        hint=f"DROP {word.upper()} {name.text} first",
    )
