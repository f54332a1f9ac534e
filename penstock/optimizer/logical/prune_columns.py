"""Leave out the columns of streams that a query does not look at."""

from __future__ import annotations

from dataclasses import replace

from penstock.model.schema import Field, Schema
from penstock.optimizer.logical.columns_needed import ColumnsNeeded, Needed, progress_columns
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.nodes.stateless import Scan
from penstock.plan.streams import StreamDefinition
from penstock.sources.source import KnowsItsTypes


def prune_columns(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Only columns of which the source says that they fit: reading one may be what rejects a row.
    Late tuples that somebody asks for come with all of theirs.

    before: WindowAggregate sum(len) BY k (Filter len > 0 (Scan s(k, len, ts, note, …)))
    after:  WindowAggregate sum(len) BY k (Filter len > 0 (Scan s(k, len, ts)))

    >>> from penstock.model.types import BIGINT
    >>> from penstock.plan.expressions import Column, Named
    >>> from penstock.plan.nodes.stateless import Project
    >>> from penstock.sources.memory import BatchSource
    >>> class Typed(BatchSource):  # as a DataFrame is
    ...     def always_fits(self, field: Field) -> bool:
    ...         return True
    >>> schema = Schema([Field(name, BIGINT) for name in ("k", "len", "note")])
    >>> stream = StreamDefinition("s", schema, source=Typed([], "typed"))
    >>> columns = (Named("k", Column("k", BIGINT, "s")),)
    >>> query = QueryPlan(Project(Scan(stream, "s"), columns))
    >>> query.input.input.schema.names, prune_columns(query, Settings()).input.input.schema.names
    (('k', 'len', 'note'), ('k',))
    """
    if query.late is not Late.DROP:
        return query
    return with_inputs(query, lambda node: _Narrower().below(node, None))


class _Narrower(ColumnsNeeded):
    def scan(self, scan: Scan, needed: Needed) -> Scan:
        return scan if needed is None else _narrowed(scan, needed)


def _narrowed(scan: Scan, needed: frozenset[tuple[str | None, str]]) -> Scan:
    stream = scan.stream
    of_progress = progress_columns(stream)
    kept = tuple(
        field
        for field in stream.schema
        if (scan.alias, field.name) in needed
        or field.name in of_progress
        or not _always_fits(stream, field)
    )
    read = stream.input_schema.fields
    if not any(field in kept for field in read):
        # rows have to be counted by something that is read, which stamps are not
        kept = tuple(field for field in stream.schema if field in kept or field in read[:1])
    if len(kept) == len(stream.schema.fields):
        return scan
    return replace(scan, stream=replace(stream, schema=Schema(kept)))


def _always_fits(stream: StreamDefinition, field: Field) -> bool:
    source = stream.source
    return isinstance(source, KnowsItsTypes) and source.always_fits(field)
