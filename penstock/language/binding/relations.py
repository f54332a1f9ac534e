"""FROM: relations become nodes, several of them a join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from penstock.errors import BindError, PenstockError, Span
from penstock.language.binding.bands import bandable, connected, find_bands
from penstock.language.binding.expressions import ExpressionBinder
from penstock.language.binding.literals import ticks
from penstock.language.binding.scope import Scope
from penstock.language.binding.windows import check_progress, only_progressing
from penstock.language.syntax import (
    ExceptRelation,
    Name,
    NamedRelation,
    Quantity,
    Relation,
    SequenceRelation,
    SubqueryRelation,
    UnionRelation,
    WindowClause,
)
from penstock.model.domain import Domain
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Column, Expression, Named, all_of
from penstock.plan.joins import (
    Bands,
    Difference,
    Join,
    JoinWindow,
    Ranges,
    Sequence,
    SequenceMode,
    Tumbling,
)
from penstock.plan.node import Node
from penstock.plan.query import QueryPlan
from penstock.plan.stateless import Project, Scan, Stamp, Union
from penstock.windows.joins import TumblingJoin

T = TypeVar("T")


class BoundSource(NamedTuple):
    """A relation of FROM with the window it was given."""

    node: Node
    alias: str
    window: WindowClause | None
    span: Span


class RelationBinder:
    def __init__(self, catalog: Catalog, window_all: Quantity | None = None) -> None:
        self.catalog = catalog
        self.window_all = window_all

    def bind(self, relation: Relation) -> BoundSource:
        match relation:
            case NamedRelation():
                return self._named(relation)
            case SubqueryRelation():
                return self._subquery(relation)
            case UnionRelation():
                return self._union(relation)
            case ExceptRelation():
                return self._difference(relation)
            case SequenceRelation():
                return self._sequence(relation)

    def _named(self, relation: NamedRelation) -> BoundSource:
        found = self.catalog.relation(relation.name.text, relation.name.span)
        if isinstance(found, QueryPlan):
            alias = relation.alias.text if relation.alias else relation.name.text
            return BoundSource(under(found.input, alias), alias, relation.window, relation.span)
        alias = relation.alias.text if relation.alias else found.name
        return BoundSource(Scan(found, alias, relation.span), alias, relation.window, relation.span)

    def _subquery(self, relation: SubqueryRelation) -> BoundSource:
        from penstock.language.binding.select import bind_query  # queries hold relations

        if relation.query.modifiers is not None:
            raise BindError(
                "LATE and EMIT belong to the outermost query", span=relation.query.modifiers
            )
        inner = bind_query(relation.query, self.catalog).input
        alias = relation.alias.text if relation.alias else ""
        return BoundSource(under(inner, alias), alias, relation.window, relation.span)

    def _union(self, relation: UnionRelation) -> BoundSource:
        branches = [self.bind(branch) for branch in relation.branches]
        shape = [(field.name.casefold(), field.type) for field in branches[0].node.schema]
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
            attribute = self._attribute(side, node)
            attributes.append(attribute)
            ranges.append(self._range(side.window, attribute))
        _same_domain(attributes, relation.span)
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
        attributes = [self._attribute(s, n) for s, n in zip((first, second), nodes, strict=True)]
        _same_domain(attributes, relation.span)
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
            ),
        )
        return BoundSource(node, "", None, relation.span)

    # --- joins -----------------------------------------------------------------------------------

    def join(self, sources: list[BoundSource], predicates: list[Expression], span: Span) -> Node:
        """All sources as one n-ary join whose condition is all of the predicates."""
        windows = [source.window for source in sources]
        attributes = [self._attribute(source, source.node) for source in sources]
        _same_domain(attributes, span)
        window: JoinWindow
        if any(clause is not None and clause.tumbling for clause in windows):
            window = self._tumbling(sources, attributes)
        elif self.window_all is not None or any(clause is not None for clause in windows):
            window = Ranges(self._ranges(sources, attributes))
        else:
            window = self._bands(sources, attributes, predicates, span)
        condition = all_of(predicates)
        nodes = tuple(source.node for source in sources)
        return pointing_at(span, lambda: Join(nodes, tuple(attributes), window, condition, span))

    def _tumbling(self, sources: list[BoundSource], attributes: list[Column]) -> Tumbling:
        """[RANGE TUMBLING 5 MINUTES, WA ts] stands once and holds for all inputs."""
        clauses = [source.window for source in sources if source.window is not None]
        lengths = []
        for clause in clauses:
            if not clause.tumbling or clause.range is None:
                raise BindError("all inputs of a tumbling join tumble", span=clause.span)
            lengths.append(positive(clause.range, ticks(clause.range, _domain(attributes[0]))))
        if len(set(lengths)) > 1:
            raise BindError("the inputs tumble by different lengths", span=clauses[-1].span)
        return Tumbling(TumblingJoin(lengths[0]))

    def _ranges(self, sources: list[BoundSource], attributes: list[Column]) -> tuple[int, ...]:
        ranges = []
        for source, attribute in zip(sources, attributes, strict=True):
            length = self._range(source.window, attribute)
            if length is None:
                raise BindError(
                    f"{source.alias or 'this input'} has no window, so it could be joined for ever",
                    span=source.span,
                    hint=f"[RANGE 1 MINUTE, WA {attribute.name}]",
                )
            ranges.append(length)
        return tuple(ranges)

    def _bands(
        self,
        sources: list[BoundSource],
        attributes: list[Column],
        predicates: list[Expression],
        span: Span,
    ) -> Bands:
        bands = []
        if all(map(bandable, attributes)):
            bands = find_bands(attributes, predicates)
        if not connected(len(sources), bands):
            first, second = attributes[:2]
            raise BindError(
                "nothing bounds how far apart joined tuples are, so they would be kept for ever",
                span=span,
                expected="a window on each input, or a condition on both times",
                hint=f"{sources[0].alias} [RANGE 1 MINUTE, WA {first.name}], or {second} BETWEEN "
                f"{first} AND {first} + INTERVAL 1 MINUTE",
            )
        return Bands(tuple(bands))

    def _attribute(self, source: BoundSource, node: Node) -> Column:
        """The windowing attribute of an input: what WA says, or the one column that progresses."""
        clause = source.window
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

    def _range(self, clause: WindowClause | None, attribute: Column) -> int | None:
        """How long tuples of an input stay; None when nothing says so."""
        if clause is None:
            if self.window_all is None:
                return None
            return positive(self.window_all, ticks(self.window_all, _domain(attribute)))
        for part in (clause.slide, clause.origin, clause.range_attribute, clause.slide_attribute):
            if part is not None:
                raise BindError(
                    "the window of an input has a RANGE and an attribute, nothing more",
                    span=clause.span,
                    hint="the window of an aggregate stands before FROM",
                )
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


def under(node: Node, alias: str) -> Node:
    """The same columns, as those of a relation called `alias`."""
    if isinstance(node, Project):
        return replace(node, relation=alias or None)
    columns = tuple(Named(field.name, Column.of(field)) for field in node.schema)
    return Project(node, columns, alias or None)


def renamed(node: Node, names: tuple[str, ...]) -> Node:
    """The same columns under other names, which differ at most in case."""
    if node.schema.names == names:
        return node
    pairs = zip(names, node.schema, strict=True)
    columns = tuple(Named(name, Column.of(field)) for name, field in pairs)
    return Project(node, columns, node.schema.fields[0].relation)


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


def _same_domain(attributes: list[Column], span: Span) -> None:
    if len({attribute.type for attribute in attributes}) > 1:
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
