"""Binds the relations of FROM: streams, sub-queries, VALUES, unions, differences, sequences, and
UNNEST."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from sqlglot import exp

from penstock.errors import BindError, PenstockError, Span, nearest
from penstock.model.ticks import Domain
from penstock.model.types import BIGINT, INT, Field, Kind, Type
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Column, Named
from penstock.plan.identity import answer_stream
from penstock.plan.nodes.join import Difference, Sequence, SequenceMode
from penstock.plan.nodes.node import Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.streams import StreamDefinition, that_ends
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.literals import span_of, ticks
from penstock.sql.binder.scope import Hidden, Scope
from penstock.sql.binder.values import written_table
from penstock.sql.binder.windows import check_progress, only_progressing, with_windows
from penstock.sql.syntax import (
    ExceptRelation,
    JoinChain,
    Name,
    NamedRelation,
    Quantity,
    QuerySyntax,
    Relation,
    Select,
    SelectItem,
    SequenceRelation,
    SubqueryRelation,
    UnionRelation,
    UnnestedRelation,
    WindowClause,
    WindowedRelation,
    WrittenRelation,
    clauses_besides,
)


def under(node: Node, alias: str) -> Node:
    """Give the columns of a node to a relation called `alias`."""
    if isinstance(node, Project):
        return replace(node, relation=alias or None)
    columns = tuple(Named(field.name, Column.of(field)) for field in node.schema)
    return Project(node, columns, alias or None)


def with_columns(node: Node, alias: str, names: tuple[Name, ...], span: Span) -> Node:
    """Rename the columns of a query: `(query) AS alias (names)`."""
    fields = node.schema.fields
    if len(fields) != len(names):
        raise BindError(
            f"{alias} names {len(names)} columns, and its query has {len(fields)}", span=span
        )
    pairs = zip(names, fields, strict=True)
    return Project(node, tuple(Named(name.text, Column.of(field)) for name, field in pairs))


def renamed(node: Node, names: tuple[str, ...]) -> Node:
    """Rename the columns of a node; the new names differ at most in case."""
    if node.schema.names == names:
        return node
    pairs = zip(names, node.schema, strict=True)
    columns = tuple(Named(name, Column.of(field)) for name, field in pairs)
    return Project(node, columns, node.schema.fields[0].relation)


# UNNEST of an ARRAY or MAP of the relation before it.


def unnest(node: Node, relation: UnnestedRelation, binder: ExpressionBinder) -> Unnest:
    collection = binder.bind(relation.collection)
    if collection.type.kind not in (Kind.ARRAY, Kind.MAP):
        raise BindError(
            f"{relation.called} takes an ARRAY or MAP, not {collection.type.a}",
            span=span_of(relation.collection),
        )
    alias = relation.alias.text if relation.alias is not None else "unnest"
    parts, spread = _parts(collection.type, relation)
    item = "col" if relation.exploded else alias
    given = parts if spread or len(parts) > 1 else [(item, part) for _, part in parts]
    from_zero = relation.numbered and relation.exploded
    if from_zero:
        given.insert(0, ("pos", INT))
    elif relation.numbered:
        given.append(("ordinality", BIGINT))
    types = [part for _, part in given]
    names = [name.text for name in relation.columns] or [name for name, _ in given]
    if len(names) != len(types):
        raise BindError(
            f"{relation.called} has {len(types)} column{'s' * (len(types) != 1)} here",
            span=relation.columns[0].span if relation.columns else relation.span,
            expected=", ".join(map(str, types)),
        )
    fields = tuple(Field(name, each, alias) for name, each in zip(names, types, strict=True))
    numbered = relation.numbered
    return Unnest(node, collection, fields, relation.outer, numbered, spread, from_zero)


def _parts(collection: Type, relation: UnnestedRelation) -> tuple[list[tuple[str, Type]], bool]:
    """Names and types of the columns that an unnested collection has: the fields of its rows behind
    UNNEST in FROM, unless one name is given for all of them."""
    if collection.kind is Kind.MAP:
        return list(collection.parts), False
    item, wanted = collection.item, len(relation.columns) - relation.numbered
    if item.kind is Kind.STRUCT:
        rows = relation.called == "UNNEST" and not relation.hidden and not relation.columns
        if rows or (wanted == len(item.parts) and wanted > 1):
            return list(item.parts), True
    return [("item", item)], False


# Relations of FROM: streams and queries by name, sub-queries, unions, differences, sequences.

T = TypeVar("T")
_READ = ("range", "range_all", "tumbling", "attribute")  # of the window of an input


class BoundSource(NamedTuple):
    """A relation of FROM with the window that it was given."""

    node: Node
    alias: str
    window: WindowClause | None
    span: Span
    hidden: Hidden = frozenset()  # columns that are found under the name of their relation alone


class RelationBinder:
    """Binds one relation of FROM to a node and what a join must know of it."""

    def __init__(
        self,
        catalog: Catalog,
        window_all: Quantity | None = None,
        windowed: exp.Expr | None = None,
    ) -> None:
        """Bind relations of a catalog. `windowed` is the attribute that a window over the only
        relation of a SELECT goes by, if there is one."""
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
        from penstock.sql.binder.table_answers import answered

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
        from penstock.sql.binder.select import bind_query
        from penstock.sql.binder.table_answers import answered

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
                _kept_steps(relation),
            ),
        )
        return BoundSource(node, "", None, relation.span)

    # --- windows of inputs -----------------------------------------------------------------------

    def attribute(self, source: BoundSource, node: Node) -> Column:
        """Windowing attribute of an input: that of WA, or the only column that progresses."""
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
        """Ticks that tuples of an input stay in the state of a join; None if no window says so."""
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
    """Make a stream that ends of a table with a window, if it has a time."""
    names = {column.name.casefold() for column in by.find_all(exp.Column)}
    for field in table.schema:
        if {field.name.casefold()} == names and Domain.has(field.type):
            return that_ends(table, field.name)
    return table


def ending(source: BoundSource, by: exp.Expr) -> BoundSource:
    """Make a stream that ends of a table with a window, among relations that are joined."""
    from penstock.sql.binder.joins import is_table

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
    """Refuse LATE, EMIT and CONSISTENCY in a query that another one reads."""
    if query.modifiers is not None:
        raise BindError(
            "LATE, EMIT and CONSISTENCY belong to the outermost query", span=query.modifiers
        )


def _kept_steps(relation: SequenceRelation) -> tuple[bool, bool]:
    """Whether tuples without a partner are emitted, of the first step and of the second."""
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
    """Fill in LATENT timestamps of a node, if it has them."""
    for inner in node.walk():
        if isinstance(inner, Stamp):
            return node
        if isinstance(inner, Scan) and inner.stream.is_latent:
            attribute = inner.stream.attribute
            return Stamp(node, Column(attribute.name, attribute.type, inner.alias))
    return node


def unlike(left: BoundSource, right: BoundSource) -> BindError:
    """Describe the first difference between the columns of two inputs of a union."""
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
    """Bind a column that a difference compares, on one side."""
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
    """Refuse relations without a name that share a column: columns are identified by names and
    relations."""
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
    """Give a bound source another alias."""
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
    """Check that times are of one type; whole numbers of any size are comparable."""
    types = {BIGINT if each.type.is_integer else each.type for each in attributes}
    if len(types) > 1:
        kinds = ", ".join(f"{attribute} {attribute.type}" for attribute in attributes)
        raise BindError(f"the windowing attributes differ in type: {kinds}", span=span)


def pointing_at(span: Span, make: Callable[[], T]) -> T:
    """Make a node; errors of its own checks point at `span`."""
    try:
        return make()
    except PenstockError as error:
        if error.span is None:
            error.span = span
        raise


# explode and unnest in a SELECT list, as Spark and DuckDB have them: the relation is unnested, and
# its item, and what comes with it, stand in their place.

_ONE = ("unnest", "explode", "explode_outer")  # with a MAP, two as well
_NUMBERED = ("posexplode", "posexplode_outer")
_HINT = "FROM s LATERAL VIEW explode(s.items) u AS item"


def unnested_items(select: Select, catalog: Catalog) -> Select:
    """
    before: SELECT id, explode(items) AS item FROM orders
    after:  SELECT id, u.item AS item FROM orders CROSS JOIN UNNEST(items) AS u(item)
    """
    found = [
        (item, each)
        for item in select.items
        for each in item.expression.find_all(exp.Anonymous)
        if _is_generator(each, catalog)
    ]
    if not found:
        return select
    item, call = found[0]
    span = span_of(call)
    name = str(call.name).lower()
    if len(found) > 1:
        second = span_of(found[1][1])
        raise BindError("a SELECT takes one collection apart", span=second, hint=_HINT)
    if item.expression is not call or len(call.expressions) != 1:
        raise BindError(
            f"{name} stands alone in a SELECT list, with an ARRAY", span=span, hint=_HINT
        )
    match select.chains:
        case (JoinChain(relation, ()),):
            pass
        case _:
            raise BindError(
                f"{name} in a SELECT list takes apart what one relation has",
                span=span,
                hint="CROSS JOIN UNNEST(a.items) AS u(item) behind the relation",
            )
    taken, inside = _unnested_item(item, call, relation, bool(select.group_by))
    items = tuple(taken if each is item else each for each in select.items)
    return replace(select, items=items, chains=(JoinChain(inside, ()),))


def _unnested_item(
    item: SelectItem, call: exp.Anonymous, relation: Relation, grouped: bool
) -> tuple[SelectItem, UnnestedRelation]:
    """Replace an unnesting call in a SELECT list. Returns the item that stands for it, a star only
    if it may be several columns, and the relation, whose columns are found by its name alone."""
    name = str(call.name).lower()
    alias = Name(item.text if name == "unnest" else f"{name}()", item.span)
    columns = item.aliases or ((item.alias,) if item.alias is not None else ())
    inside = UnnestedRelation(
        relation,
        call.expressions[0],
        alias,
        columns,
        name.endswith("_outer"),
        name in _NUMBERED,
        item.span,
        "UNNEST" if name == "unnest" else name,
        hidden=True,
    )
    if item.aliases or name in _NUMBERED or (item.alias is None and not grouped):
        star = exp.Column(this=exp.Star(), table=exp.to_identifier(alias.text, quoted=True))
        star.meta.update(call.meta)
        return replace(item, expression=star, alias=None, text="*"), inside
    column = item.alias or Name(item.text if name == "unnest" else "col", item.span)
    part = exp.column(column.text, table=alias.text, quoted=True)
    part.meta.update(call.meta)
    taken = replace(item, expression=part, alias=column)
    return taken, replace(inside, columns=(column,))


def _is_generator(call: exp.Anonymous, catalog: Catalog) -> bool:
    name = str(call.name).lower()
    return name in (*_ONE, *_NUMBERED) and catalog.function(name) is None
