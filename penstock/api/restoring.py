"""What a checkpoint of a live engine has, brought back into a database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.api.live_outputs import Paths
from penstock.engine.live.records import QueryRecord
from penstock.errors import BindError, CheckpointError, PenstockError
from penstock.language.binding.definitions.streams import bind_stream
from penstock.language.binding.select import bind_query
from penstock.language.parse import parse_script, pointing_into
from penstock.language.syntax.names import Name
from penstock.language.syntax.statements import CreateQuery, CreateStream, IntoPlaces
from penstock.plan.catalog import Catalog
from penstock.plan.identity.identity import differences, stream_identity
from penstock.plan.identity.source_text import SourceText
from penstock.plan.nodes.query import QueryPlan

if TYPE_CHECKING:
    from penstock.api.database import Database


@dataclass
class Restored:
    """What has come back, by key.  A program or script that is run again says the same again: that
    is passed over, once."""

    streams: set[str] = field(default_factory=set)
    queries: dict[str, tuple[QueryPlan, Paths]] = field(default_factory=dict)

    def has_stream(self, statement: CreateStream, database: Database) -> bool:
        key = statement.name.text.casefold()
        if key not in self.streams:
            return False
        stream = bind_stream(statement, database.catalog, database.base, database.allowed)
        if stream != database.catalog.streams[key]:
            raise _says_something_else(stream.word, statement.name)
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
            raise _says_something_else("query", statement.name)
        del self.queries[key]
        return True


def streams_again(record: QueryRecord, database: Database) -> set[str]:
    """Make those streams of a query that the database does not have, of the SQL that has made them;
    their keys.  The others have to be what they were."""
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
                hint="make it as it was, or begin anew with another checkpoint",
            )
    return made


def bound_again(source: SourceText, name: str, database: Database) -> QueryPlan:
    """What a statement makes of a name, over the streams of the database and the queries that it
    has read."""
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
    """Whether a statement, and those that it reads, can be bound again from their texts alone."""
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
    """Where the rows of a query go."""
    (statement,) = parse_script(source.text)
    assert isinstance(statement, CreateQuery)
    return statement.into


def _says_something_else(word: str, name: Name) -> BindError:
    return BindError(
        f"{word} {name.text} is back from the checkpoint, and was something else",
        span=name.span,
        expected="the statement that has made it, or none",
        hint=f"DROP {word.upper()} {name.text} first",
    )
