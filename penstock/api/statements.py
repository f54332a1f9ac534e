"""Execution of the statements of a script on a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.api.display import LISTED, Explanation, list_columns
from penstock.api.live_state import RememberingCatalog, text_of
from penstock.api.query import Query
from penstock.errors import BindError
from penstock.sql.binder.definitions import bind_split, bind_stream, bind_view
from penstock.sql.binder.select import bind_query
from penstock.sql.syntax import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateView,
    Describe,
    Drop,
    Explain,
    IntoPlaces,
    Name,
    QuerySyntax,
    Show,
    Split,
    Statement,
)

if TYPE_CHECKING:
    from penstock.api.database import Database


def refuse_lost(statements: Sequence[Statement]) -> None:
    """Refuse a script with a result before its last statement, which would be lost: SELECT …;
    SELECT …"""
    for statement in statements[:-1]:
        if isinstance(statement, QuerySyntax | Explain | Show):
            raise BindError(
                "the result of this statement would be lost: only that of the last is given",
                span=statement.span,
                hint="db.script(text), which gives one after the other",
            )


def execute(database: Database, statement: Statement, text: str) -> Query | Explanation | None:
    """Execute one statement of a script."""
    match statement:
        case CreateStream():
            stream = bind_stream(statement, database.catalog, database.base, database.allowed)
            database.catalog.add_stream(stream, statement.name.span)
            made_by = text_of(statement, text, RememberingCatalog())
            database.catalog.texts[stream.name.casefold()] = made_by
        case CreateQuery(into=IntoPlaces(first=Name(span=span))) | AlterQuery(span=span):
            raise BindError(
                "INTO and ALTER QUERY are for queries that run at once",
                span=span,
                hint="db.live().sql(…)",
            )
        case Show(what):
            return LISTED[what](database.catalog)
        case Describe(Name(text, span)):
            return list_columns(database.catalog.relation(text, span))
        case Describe(asked):
            assert not isinstance(asked, Name)
            return list_columns(bind_query(asked, database.catalog))
        case CreateQuery(name):
            reading = RememberingCatalog.of(database.catalog)
            bound = bind_query(statement.query, reading)
            database.catalog.add_query(name.text, bound, name.span)
            database.catalog.texts[name.text.casefold()] = text_of(statement, text, reading)
        case CreateView(name, if_not_exists=True) if name.text.casefold() in database.catalog.views:
            pass
        case CreateView(name, _, replaces):
            reading = RememberingCatalog.of(database.catalog)
            bound = bind_view(statement, reading)
            database.catalog.add_view(name.text, bound, replaces, name.span)
            database.catalog.texts[name.text.casefold()] = text_of(statement, text, reading)
        case Split():
            reading = RememberingCatalog.of(database.catalog)
            for name, plan in bind_split(statement, reading):
                database.catalog.add_query(name.text, plan, name.span)
                database.catalog.texts[name.text.casefold()] = text_of(statement, text, reading)
        case Drop(kind, name, if_exists):
            _drop(database, kind, name, if_exists)
        case Explain():
            bound = bind_query(statement.query, database.catalog)
            query = Query(bound, text, database.setting)
            return Explanation(
                query.explain(
                    physical=statement.physical,
                    schedule=statement.schedule,
                    dataflow=statement.dataflow,
                    conflicts=statement.conflicts,
                    analyze=statement.analyze,
                )
            )
        case _:
            bound = bind_query(statement, database.catalog)
            return Query(bound, text, database.setting, span=statement.span)
    return None


def _drop(database: Database, kind: str, name: Name, if_exists: bool) -> None:
    known = {
        "STREAM": database.streams,
        "TABLE": database.tables,
        "VIEW": database.views,
        "QUERY": database.queries,
    }[kind]
    if if_exists and name.text.casefold() not in map(str.casefold, known):
        return
    if kind == "QUERY":
        database.catalog.drop_query(name.text, name.span)
    elif kind == "VIEW":
        database.catalog.drop_view(name.text, name.span)
    else:
        database.catalog.drop_stream(name.text, name.span, is_table=kind == "TABLE")
