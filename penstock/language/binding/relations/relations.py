"""Relations of FROM: streams and queries by name, sub-queries, unions, differences, sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from sqlglot import exp

from penstock.errors import BindError, PenstockError, Span, nearest
from penstock.language.binding.relations.columns import renamed, under, with_columns
from penstock.language.binding.relations.unnest import unnest
from penstock.language.binding.relations.written import written_table
from penstock.language.binding.scalars.expressions import ExpressionBinder
from penstock.language.binding.scalars.literals import span_of, ticks
from penstock.language.binding.scope import Hidden, Scope
from penstock.language.binding.windows.windowed import with_windows
from penstock.language.binding.windows.windows import check_progress, only_progressing
from penstock.language.syntax.names import Name, Quantity
from penstock.language.syntax.queries import QuerySyntax, clauses_besides
from penstock.language.syntax.relations import (
    ExceptRelation,
    NamedRelation,
    Relation,
    SequenceRelation,
    SubqueryRelation,
    UnionRelation,
    UnnestedRelation,
    WindowedRelation,
    WrittenRelation,
)
from penstock.language.syntax.windows import WindowClause
from penstock.model.domain import Domain
from penstock.model.types import BIGINT
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Column
from penstock.plan.identity.identity import answer_stream
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.sequence import Sequence, SequenceMode
from penstock.plan.nodes.stateless import Scan, Stamp, Union
from penstock.plan.streams import StreamDefinition, that_ends

T = TypeVar("T")
_READ = ("range", "range_all", "tumbling", "attribute")  # of the window of an input


class BoundSource(NamedTuple):
    """A relation of FROM with the window it was given."""

    node: Node
    alias: str
    window: WindowClause | None
    span: Span
    hidden: Hidden = frozenset()  # columns that are found under the name of their relation alone


class RelationBinder:
    def __init__(
        self,
        catalog: Catalog,
        window_all: Quantity | None = None,
        windowed: exp.Expr | None = None,
    ) -> None:
        """If there is one relation only, and a window is laid over all of its tuples, then that is
        `windowed` by something."""
        self.catalog = catalog
        self.window_all = window_all
        self.windowed = windowed

    def bind(self, relation: Relation) -> BoundSource:
        match relation:
            case NamedRelation():
                return self._named(relation)
            case SubqueryRelation():
                return self._subquery(relation)
            case WrittenRelation():
                return self._written(relation)
            case UnionRelation():
                return self._union(relation)
            case ExceptRelation():
                return self._difference(relation)
            case SequenceRelation():
                return self._sequence(relation)
            case WindowedRelation():
                return self._windowed(relation)
            case UnnestedRelation():
                return self._unnested(relation)

    def _named(self, relation: NamedRelation) -> BoundSource:
        from penstock.language.binding.relations.complete_tables import answered

        if relation.reserved:
            raise self._reserved(relation.name)
        found = self.catalog.relation(relation.name.text, relation.name.span)
        if isinstance(found, QueryPlan):
            alias = relation.alias.text if relation.alias else relation.name.text
            given = answered(found.input, nested=True)
            return BoundSource(under(given, alias), alias, relation.window, relation.span)
        if found.is_table and self.windowed is not None:
            found = _windowed_table(found, self.windowed)
        own = found.name.rpartition(".")[2] if found.of_session else found.name
        alias = relation.alias.text if relation.alias else own
        return BoundSource(Scan(found, alias, relation.span), alias, relation.window, relation.span)

    def _reserved(self, name: Name) -> BindError:
        close = nearest(name.text, self.catalog.relations, limit=1)
        meant = [each for each in close if each.casefold() != name.text.casefold()]
        return BindError(
            f"{name.text!r} cannot be a stream or query",
            span=name.span,
            hint=", or ".join([*meant, f"`{name.text}` in back quotes"]),
        )

    def _subquery(self, relation: SubqueryRelation) -> BoundSource:
        from penstock.language.binding.relations.complete_tables import answered
        from penstock.language.binding.select import bind_query  # queries hold relations

        refuse_modifiers(relation.query)
        catalog = replace(self.catalog, complete=False)
        inner = answered(bind_query(relation.query, catalog).input, nested=True)
        alias = relation.alias.text if relation.alias else ""
        if relation.columns:
            inner = with_columns(inner, alias, relation.columns, relation.span)
        return BoundSource(under(inner, alias), alias, relation.window, relation.span)

    def _written(self, relation: WrittenRelation) -> BoundSource:
        table = written_table(relation, self.catalog)
        if self.windowed is not None:
            table = _windowed_table(table, self.windowed)
        alias = relation.alias.text if relation.alias else ""
        scan = Scan(table, alias or table.name, relation.span)
        return BoundSource(under(scan, alias), alias, relation.window, relation.span)

    def _windowed(self, relation: WindowedRelation) -> BoundSource:
        alone = RelationBinder(self.catalog, windowed=relation.time)
        source = ending(alone.bind(replace(relation.relation, window=None)), relation.time)
        binder = ExpressionBinder(Scope(source.node.schema), self.catalog, "a window function")
        time = check_progress(source.node, binder.bind(relation.time), span_of(relation.time))
        node = with_windows(source.node, relation, time, binder)
        return BoundSource(node, relation.called, relation.window, relation.span)

    def _unnested(self, relation: UnnestedRelation) -> BoundSource:
        source = self.bind(relation.relation)
        binder = ExpressionBinder(Scope(source.node.schema), self.catalog, "UNNEST")
        node = pointing_at(relation.span, lambda: unnest(source.node, relation, binder))
        hidden = {(each.name, each.relation) for each in node.fields if relation.hidden}
        return source._replace(node=node, hidden=source.hidden | hidden)

    def _union(self, relation: UnionRelation) -> BoundSource:
        branches = [self.bind(branch) for branch in relation.branches]
        shape = [(field.name.casefold(), field.type) for field in branches[0].node.schema]
        for branch in branches:
            if branch.window is not None:
                raise BindError(
                    "the inputs of a union have no windows of their own",
                    span=branch.window.span,
                    hint="the window behind the last one, which is that of the union",
                )
        for branch in branches[1:]:
            other = [(field.name.casefold(), field.type) for field in branch.node.schema]
            if shape != other:
                raise unlike(branches[0], branch)
        alias = relation.alias.text if relation.alias else " ∪ ".join(b.alias for b in branches)
        first = branches[0].node.schema.names
        nodes = tuple(renamed(stamped(branch.node), first) for branch in branches)
        return BoundSource(Union(nodes, alias), alias, relation.window, relation.span)

    def _difference(self, relation: ExceptRelation) -> BoundSource:
        left, right = self.bind(relation.left), self.bind(relation.right)
        nodes = (stamped(left.node), stamped(right.node))
        keys = []
        for name in relation.columns:
            pair = [_key(side, node, name) for side, node in zip((left, right), nodes, strict=True)]
            if pair[0].type != pair[1].type:
                raise BindError(
                    f"{name.text!r} is {pair[0].type.a} on the left and {pair[1].type.a} on the "
                    "right",
                    span=name.span,
                    expected="one type on both sides",
                )
            keys.append((pair[0], pair[1]))
        attributes, ranges = [], []
        for side, node in zip((left, right), nodes, strict=True):
            attribute = self.attribute(side, node)
            attributes.append(attribute)
            ranges.append(self.stay(side.window, attribute))
        same_domain(attributes, relation.span)
        node = pointing_at(
            relation.span,
            lambda: Difference(
                nodes[0],
                nodes[1],
                tuple(keys),
                (attributes[0], attributes[1]),
                (ranges[0], ranges[1]),
                left.alias,
                relation.span,
            ),
        )
        return BoundSource(node, left.alias, None, relation.span)

    def _sequence(self, relation: SequenceRelation) -> BoundSource:
        first, second = self.bind(relation.first), self.bind(relation.second)
        distinct_aliases([first, second])
        nodes = (stamped(first.node), stamped(second.node))
        for side in (first, second):
            if side.window is not None:
                raise BindError(
                    "the steps of a sequence have no windows", span=side.window.span, hint="WITHIN"
                )
        attributes = [self.attribute(s, n) for s, n in zip((first, second), nodes, strict=True)]
        same_domain(attributes, relation.span)
        within = None
        if relation.within is not None:
            within = ticks(relation.within, Domain(attributes[0].type))
        condition = None
        if relation.on is not None:
            scope = Scope(nodes[0].schema + nodes[1].schema)
            condition = ExpressionBinder(scope, self.catalog).condition(relation.on, "ON")
        node = pointing_at(
            relation.span,
            lambda: Sequence(
                nodes[0],
                nodes[1],
                (attributes[0], attributes[1]),
                SequenceMode(relation.mode),
                condition,
                within,
                relation.span,
                _keeps(relation),
            ),
        )
        return BoundSource(node, "", None, relation.span)

    # --- windows of inputs -----------------------------------------------------------------------

    def attribute(self, source: BoundSource, node: Node) -> Column:
        """The windowing attribute of an input: what WA says, or the one column that progresses."""
        clause = source.window
        if clause is not None and clauses_besides(clause, _READ):
            raise BindError(
                "the window of an input has a RANGE and an attribute, nothing more",
                span=clause.span,
                hint="the window of an aggregate stands before FROM",
            )
        if clause is None or clause.attribute is None:
            return only_progressing(node, source.span, "WA")
        attribute = clause.attribute
        if attribute.column is None or attribute.ranked:
            raise BindError("inputs are windowed by a column", span=attribute.span)
        bound = ExpressionBinder(Scope(node.schema), self.catalog).bind(attribute.column)
        if not isinstance(bound, Column):
            raise BindError("a windowing attribute is a column", span=attribute.span)
        check_progress(node, bound, attribute.span)
        return bound

    def stay(self, clause: WindowClause | None, attribute: Column) -> int | None:
        """How long tuples of an input stay; None when nothing says so."""
        if clause is None:
            if self.window_all is None:
                return None
            return positive(self.window_all, ticks(self.window_all, _domain(attribute)))
        if clause.range_all:
            return None
        if clause.range is None:
            raise BindError("the window has no RANGE", span=clause.span, hint="RANGE 3 MINUTES")
        length = ticks(clause.range, _domain(attribute))
        if length < 0:
            raise BindError(
                f"RANGE is {clause.range}", span=clause.range.span, expected="zero or more"
            )
        return length


def _windowed_table(table: StreamDefinition, by: exp.Expr) -> StreamDefinition:
    """A table that a window is laid over is a stream that ends, if there is a time to lay it on."""
    names = {column.name.casefold() for column in by.find_all(exp.Column)}
    for field in table.schema:
        if {field.name.casefold()} == names and Domain.has(field.type):
            return that_ends(table, field.name)
    return table


def ending(source: BoundSource, by: exp.Expr) -> BoundSource:
    """A table that a window is laid over, among those that are joined: a stream that ends."""
    from penstock.language.binding.relations.tables import is_table

    node, columns = source.node, list(by.find_all(exp.Column))
    if not is_table(node) or any(
        each.table and each.table.casefold() != source.alias.casefold() for each in columns
    ):
        return source
    table = node.stream if isinstance(node, Scan) else answer_stream(node)
    ends = _windowed_table(table, by)
    if ends is table:
        return source
    return source._replace(node=under(Scan(ends, source.alias or ends.name), source.alias))


def refuse_modifiers(query: QuerySyntax) -> None:
    """What a query says about its own results has no meaning where another one reads them."""
    if query.modifiers is not None:
        raise BindError(
            "LATE, EMIT and CONSISTENCY belong to the outermost query", span=query.modifiers
        )


def _keeps(relation: SequenceRelation) -> tuple[bool, bool]:
    """Of which step tuples without a partner come."""
    if relation.keep is None:
        return False, False
    first, second = (relation.keep.text in (word, "BOTH") for word in ("FIRST", "SECOND"))
    if first and relation.within is None:
        raise BindError(
            "a first tuple could be followed at any time, so nobody knows that it has no partner",
            span=relation.keep.span,
            hint="WITHIN 5 MINUTES",
        )
    return first, second


def stamped(node: Node) -> Node:
    """The node with LATENT timestamps filled in, if it has them."""
    for inner in node.walk():
        if isinstance(inner, Stamp):
            return node
        if isinstance(inner, Scan) and inner.stream.is_latent:
            attribute = inner.stream.attribute
            return Stamp(node, Column(attribute.name, attribute.type, inner.alias))
    return node


def unlike(left: BoundSource, right: BoundSource) -> BindError:
    """The first difference between the columns of two inputs of a union, in words."""
    ours, theirs = list(left.node.schema), list(right.node.schema)
    for one, other in zip(ours, theirs, strict=False):
        if one.name.casefold() != other.name.casefold() or one.type != other.type:
            what = f"{one.name} {one.type} here, {other.name} {other.type} there"
            break
    else:
        what = f"{len(ours)} columns here, {len(theirs)} there"
    return BindError(
        f"the inputs of the union have different columns: {what}",
        span=right.span,
        expected=", ".join(f"{field.name} {field.type}" for field in ours),
        hint="sub-queries that select the same columns",
    )


def _key(side: BoundSource, node: Node, name: Name) -> Column:
    """A column to compare, on one side of a difference."""
    try:
        return Scope(node.schema).find(name.text, None, name.span)
    except BindError as error:
        error.message = f"{error.message} in {side.alias}"
        raise


def _domain(attribute: Column) -> Domain:
    return Domain(attribute.type)


def positive(quantity: Quantity, length: int) -> int:
    if length <= 0:
        raise BindError(f"the window is {quantity}", span=quantity.span, expected="more than zero")
    return length


def distinct_aliases(sources: list[BoundSource]) -> None:
    seen = set()
    for source in sources:
        if source.alias and source.alias.casefold() in seen:
            raise BindError(
                f"two relations are called {source.alias!r}",
                span=source.span,
                hint=f"{source.alias} AS {source.alias}2",
            )
        seen.add(source.alias.casefold())


def distinct_columns(sources: list[BoundSource]) -> None:
    """Columns are known by their names and relations, so relations without a name must not share
    any."""
    seen: set[tuple[str, str | None]] = set()
    for source in sources:
        own = {(field.name, field.relation) for field in source.node.schema}
        if seen & own:
            name = min(name for name, _ in seen & own)
            raise BindError(
                f"two relations have a column {name!r}, and nothing tells them apart",
                span=source.span,
                hint="(SELECT …) AS q",
            )
        seen |= own


def under_another_name(source: BoundSource, alias: str) -> BoundSource:
    """The same relation, called something else."""
    if len({field.relation for field in source.node.schema}) > 1:
        raise BindError(
            "a relation of the sub-query is called like one around it",
            span=source.span,
            hint="another alias",
        )
    node = source.node
    node = replace(node, alias=alias) if isinstance(node, Scan) else under(node, alias)
    return source._replace(node=node, alias=alias)


def same_domain(attributes: list[Column], span: Span) -> None:
    """Times of different types are not comparable; whole numbers of any size are."""
    types = {BIGINT if each.type.is_integer else each.type for each in attributes}
    if len(types) > 1:
        kinds = ", ".join(f"{attribute} {attribute.type}" for attribute in attributes)
        raise BindError(f"the windowing attributes differ in type: {kinds}", span=span)


def pointing_at(span: Span, make: Callable[[], T]) -> T:
    """A node whose own checks, if they fail, point at `span`."""
    try:
        return make()
    except PenstockError as error:
        if error.span is None:
            error.span = span
        raise
