"""The SQL that makes streams and queries, kept so that a checkpoint can bring them back."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.engine.live.records import Definition, StreamRecord
from penstock.errors import Span
from penstock.language.syntax.statements import CreateQuery, CreateStream, CreateView, Split
from penstock.plan.catalog import Catalog
from penstock.plan.identity.identity import stream_identity
from penstock.plan.identity.source_text import SourceText
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties.reading import scans_of
from penstock.plan.streams import StreamDefinition


@dataclass
class RememberingCatalog(Catalog):
    """Remembers which named queries somebody asks for while he binds a statement."""

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
    """A statement that makes something, taken out of its script, and what was asked for."""
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
    """All that is needed to bind a query again."""
    scanned = [scan.stream for scan in scans_of(query)]
    streams = {stream.name: stream for stream in scanned if not stream.written}
    records = {}
    for name, stream in streams.items():
        made_by = catalog.texts.get(name.casefold())
        sql = None if made_by is None else made_by.text
        records[name] = StreamRecord(stream_identity(stream), sql)
    return Definition(text, records)
