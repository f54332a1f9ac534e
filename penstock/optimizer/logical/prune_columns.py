"""Leave out the columns of streams that a query does not look at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from penstock.model.schema import Field, Schema
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.plan.aggregates import GroupAggregate, WindowAggregate
from penstock.plan.distinct_on import DistinctOn
from penstock.plan.expressions import Column, Expression, columns_of
from penstock.plan.joins import Difference, Join, Lookup, Sequence, SequenceMode
from penstock.plan.node import Node
from penstock.plan.query import Late, QueryPlan
from penstock.plan.rows_over import RowsOver
from penstock.plan.stateless import Filter, Project, Scan, Stamp
from penstock.plan.streams import StreamDefinition
from penstock.plan.unnest import Unnest
from penstock.sources.source import KnowsItsTypes

_Needed: TypeAlias = frozenset[tuple[str | None, str]] | None  # relation and name; None: all
_NOTHING: frozenset[tuple[str | None, str]] = frozenset()


def prune_columns(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Only columns of which the source says that they fit: reading one may be what rejects a row.
    Late tuples that somebody asks for come with all of theirs.

    before: WindowAggregate sum(len) BY k (Filter len > 0 (Scan s(k, len, ts, note, …)))
    after:  WindowAggregate sum(len) BY k (Filter len > 0 (Scan s(k, len, ts)))

    >>> from penstock.model.types import BIGINT
    >>> from penstock.plan.expressions import Named
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
    return with_inputs(query, lambda node: _pruned(node, None))


def _pruned(node: Node, needed: _Needed) -> Node:
    match node:
        case Scan():
            return node if needed is None else _narrowed(node, needed)
        case Filter():
            below = _with(needed, [node.predicate])
        case Stamp():
            below = _with(needed, [node.column])
        case Unnest():
            below = _with(needed, [node.expression])
        case Project():
            below = _with(_NOTHING, [column.expression for column in node.columns])
        case DistinctOn():
            below = _with(_NOTHING, [node.attribute, *node.keys, *node.columns])
        case RowsOver():
            below = _with(needed, node.looked_at)
        case WindowAggregate() | GroupAggregate():
            below = _with(_NOTHING, _looked_at(node))
        case Join():
            return _pruned_join(node, needed)
        case Lookup():
            return _pruned_lookup(node, needed)
        case Difference():
            return _pruned_difference(node, needed)
        case Sequence():
            return _pruned_sequence(node, needed)
        case _:  # columns that go by their place, or rows that are compared as a whole
            below = None
    return with_inputs(node, lambda each: _pruned(each, below))


def _pruned_join(node: Join, needed: _Needed) -> Join:
    """What a condition is about, and what comes out; partners need not come out."""
    own: list[Expression] = [*node.attributes]
    own += [node.condition] if node.condition is not None else []
    own += [column for each in node.also for column in (each.left, each.right)]
    partners = _NOTHING if node.kind.left_alone else needed
    first, *others = node.branches
    left = _pruned(first, _with(needed, own))
    right = [_pruned(each, _with(partners, own)) for each in others]
    return replace(node, branches=(left, *right))


def _pruned_lookup(node: Lookup, needed: _Needed) -> Lookup:
    own = [node.condition] if node.condition is not None else []
    rows = _NOTHING if node.kind.left_alone else needed
    table = _pruned(node.table, _with(rows, own))
    return replace(node, input=_pruned(node.input, _with(needed, own)), table=table)


def _pruned_difference(node: Difference, needed: _Needed) -> Difference:
    """Nothing of the right side comes out; the columns of the left one do under another name."""
    if needed is not None:
        pairs = zip(node.left.schema, node.schema, strict=False)  # but for the last one
        kept = [of for of, field in pairs if (field.relation, field.name) in needed]
        needed = frozenset((field.relation, field.name) for field in kept)
    (at_left, at_right), keys = node.attributes, node.keys
    left = _pruned(node.left, _with(needed, [at_left, *(one for one, _ in keys)]))
    right = _pruned(node.right, _with(_NOTHING, [at_right, *(other for _, other in keys)]))
    return replace(node, left=left, right=right)


def _pruned_sequence(node: Sequence, needed: _Needed) -> Sequence:
    """All columns decide which one of several tuples of one time is taken, from left to right:
    among the first ones, and where those are used up, among the second ones, too."""
    if node.mode is SequenceMode.CHRONICLE:
        needed = None
    own: list[Expression] = [*node.attributes]
    own += [node.condition] if node.condition is not None else []
    second = _pruned(node.second, _with(needed, own))
    return replace(node, first=_pruned(node.first, None), second=second)


def _looked_at(node: WindowAggregate | GroupAggregate) -> list[Expression]:
    calls = [aggregate.call for aggregate in node.aggregates]
    found = [key.expression for key in node.keys]
    found += [argument for call in calls for argument in call.arguments]
    found += [call.where for call in calls if call.where is not None]
    if isinstance(node, WindowAggregate):
        found += [part.expression for part in node.partition]
        found += [node.attribute] if node.attribute is not None else []
    return found


def _with(needed: _Needed, expressions: Iterable[Expression]) -> _Needed:
    if needed is None:
        return None
    return needed | {_key(column) for each in expressions for column in columns_of(each)}


def _key(column: Column) -> tuple[str | None, str]:
    return column.relation, column.name


def _narrowed(scan: Scan, needed: frozenset[tuple[str | None, str]]) -> Scan:
    stream = scan.stream
    of_progress = _progress_columns(stream)
    kept = tuple(
        field
        for field in stream.schema
        if (scan.alias, field.name) in needed
        or field.name in of_progress
        or not _always_fits(stream, field)
    )
    if len(kept) == len(stream.schema.fields):
        return scan
    kept = kept or stream.schema.fields[:1]  # rows have to be counted by something
    return replace(scan, stream=replace(stream, schema=Schema(kept)))


def _always_fits(stream: StreamDefinition, field: Field) -> bool:
    source = stream.source
    return isinstance(source, KnowsItsTypes) and source.always_fits(field)


def _progress_columns(stream: StreamDefinition) -> set[str]:
    progress = stream.progress
    if progress is None:
        return set()
    looked_at: list[Expression] = [progress.per] if progress.per is not None else []
    if progress.punctuation is not None:
        said = progress.punctuation
        looked_at += [said.when, said.bound, *said.group]
    return {progress.attribute, *(column.name for e in looked_at for column in columns_of(e))}
