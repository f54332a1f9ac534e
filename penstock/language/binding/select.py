"""SELECT: from clauses to a plan."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from penstock.errors import BindError, PenstockError, nearest
from penstock.language.binding.aggregates import WINDOW_COLUMNS, GroupBinder, has_aggregate
from penstock.language.binding.expressions import ExpressionBinder
from penstock.language.binding.literals import any_length, length_of_time, span_of, ticks
from penstock.language.binding.relations import (
    BoundSource,
    RelationBinder,
    distinct_aliases,
    pointing_at,
    positive,
    renamed,
    stamped,
    unlike,
)
from penstock.language.binding.scope import Scope
from penstock.language.binding.windows import (
    BoundWindow,
    WindowBinder,
    only_progressing,
    refuse_kept,
)
from penstock.language.limits import MAX_COLUMNS
from penstock.language.syntax import QuerySyntax, Select, SelectItem
from penstock.model.domain import Domain
from penstock.model.schema import Field, Schema
from penstock.model.types import STRING, Kind
from penstock.plan.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.algorithms import Algorithm
from penstock.plan.catalog import Catalog
from penstock.plan.counted_rows import to_be_counted
from penstock.plan.expressions import (
    Call,
    Column,
    Expression,
    Named,
    all_of,
    cast_to,
    columns_of,
    conjuncts,
)
from penstock.plan.joins import Difference, Join
from penstock.plan.node import Node
from penstock.plan.query import Late, QueryPlan
from penstock.plan.stateless import Filter, Project, Union
from penstock.windows.rows import Order
from penstock.windows.slide_by_tuple import SlideByTuple

MAX_JOINED = 200  # relations; every pair of them has windows to compare
MAX_DEPTH = 100  # nodes on top of each other; queries on queries are piled up one by one


def bind_query(syntax: QuerySyntax, catalog: Catalog) -> QueryPlan:
    """The plan of a query: its SELECTs, united if there are several."""
    nodes = [SelectBinder(select, catalog).bind() for select in syntax.selects]
    node = nodes[0]
    if len(nodes) > 1:
        shapes = [[(f.name.casefold(), f.type) for f in each.schema] for each in nodes]
        for each, shape, select in zip(nodes, shapes, syntax.selects, strict=True):
            if shape != shapes[0]:
                raise unlike(
                    BoundSource(nodes[0], "", None, syntax.span),
                    BoundSource(each, "", None, select.span),
                )
        node = Union(tuple(renamed(each, nodes[0].schema.names) for each in nodes), None)
    if node.depth > MAX_DEPTH:
        raise BindError(
            f"the query stands on a pile of {node.depth} steps",
            span=syntax.span,
            expected=f"up to {MAX_DEPTH}",
        )
    late = Late(syntax.late.text) if syntax.late else Late.DROP
    early = length_of_time(syntax.early) if syntax.early else None
    amend_for = any_length(syntax.amend_for) if syntax.amend_for else None
    try:
        query = QueryPlan(node, late, early, syntax.in_order, amend_for)
    except PenstockError as error:
        error.span = syntax.modifiers
        raise
    refuse_kept(query)
    return query


class SelectBinder:
    def __init__(self, select: Select, catalog: Catalog) -> None:
        self.select = select
        self.catalog = catalog

    def bind(self) -> Node:
        node = self._from_and_where()
        if self._aggregates():
            node, columns = self._aggregate(node)
        else:
            node, columns = self._plain(node)
        projected = pointing_at(self.select.span, lambda: Project(node, columns))
        if not self._distinct_rows():
            return projected
        if not projected.progress:
            raise self._endless("DISTINCT", "selected columns")
        return pointing_at(self.select.span, lambda: Distinct(projected, self.select.span))

    # --- FROM and WHERE --------------------------------------------------------------------------

    def _from_and_where(self) -> Node:
        """The relations, each filtered by the conditions on it alone, joined by the others."""
        if len(self.select.relations) > MAX_JOINED:
            raise BindError(
                f"{len(self.select.relations):,} relations are joined",
                span=self.select.span,
                expected=f"up to {MAX_JOINED}",
            )
        relations = RelationBinder(self.catalog, self.select.window_all)
        sources = [relations.bind(relation) for relation in self.select.relations]
        distinct_aliases(sources)
        scope = Scope(Schema(tuple(field for source in sources for field in source.node.schema)))
        predicates: list[Expression] = []
        for syntax, clause in [
            *((condition, "ON") for condition in self.select.on),
            *([(self.select.where, "WHERE")] if self.select.where is not None else []),
        ]:
            binder = ExpressionBinder(scope, self.catalog, clause)
            predicates += conjuncts(binder.condition(syntax, clause))
        shared = []
        owner = {
            (field.name, field.relation): position
            for position, source in enumerate(sources)
            for field in source.node.schema
        }
        own: list[list[Expression]] = [[] for _ in sources]
        for predicate in predicates:
            owners = {owner[each.name, each.relation] for each in columns_of(predicate)}
            if len(owners) == 1 or len(sources) == 1:
                own[owners.pop() if owners else 0].append(predicate)
            else:
                shared.append(predicate)
        sources = [
            source._replace(node=_filtered(source.node, predicates))
            for source, predicates in zip(sources, own, strict=True)
        ]
        if len(sources) > 1:
            return relations.join(sources, shared, self.select.span)
        only = sources[0]
        if only.window is not None:
            raise BindError(
                "the window of an aggregate stands after the SELECT list, before FROM",
                span=only.window.span,
            )
        return only.node

    # --- without aggregates ----------------------------------------------------------------------

    def _plain(self, node: Node) -> tuple[Node, tuple[Named, ...]]:
        select = self.select
        if select.hint is not None:
            raise BindError("the hint is for an aggregate over a window", span=select.hint.span)
        if select.window is not None:
            raise BindError(
                "the window has nothing to compute",
                span=select.window.span,
                hint="an aggregate such as count(*), or SELECT DISTINCT",
            )
        if select.window_all is not None and not isinstance(node, Join | Difference):
            raise BindError(
                "WINDOW has nothing to apply to",
                span=select.window_all.span,
                expected="a join, a difference or an aggregate",
            )
        if select.having is not None:
            raise BindError("HAVING needs an aggregate", span=span_of(select.having), hint="WHERE")
        binder = ExpressionBinder(Scope(node.schema), self.catalog, "this SELECT")
        found: list[tuple[Expression, SelectItem]] = []
        for item in select.items:
            stars = self._star(item, node.schema)
            if stars is not None:
                found += [(Column.of(field), item) for field in stars]
            else:
                found.append((binder.bind(item.expression), item))
            if len(found) > MAX_COLUMNS:
                raise BindError(f"a SELECT has up to {MAX_COLUMNS:,} columns", span=item.span)
        return node, named(found)

    def _star(self, item: SelectItem, schema: Schema) -> list[Field] | None:
        """The columns that `*` or `r.*` stands for."""
        syntax = item.expression
        if isinstance(syntax, exp.Star):
            return list(schema)
        if isinstance(syntax, exp.Column) and isinstance(syntax.this, exp.Star):
            relation = syntax.table.casefold()
            fields = [field for field in schema if (field.relation or "").casefold() == relation]
            if not fields:
                known = sorted({field.relation for field in schema if field.relation})
                raise BindError(
                    f"there is no relation {syntax.table!r} here",
                    span=item.span,
                    expected=f"one of {', '.join(known)}",
                )
            return fields
        return None

    # --- with aggregates -------------------------------------------------------------------------

    def _aggregates(self) -> bool:
        select = self.select
        parts = [item.expression for item in select.items]
        if select.having is not None:
            parts.append(select.having)
        return (
            bool(select.group_by)
            or any(has_aggregate(part, self.catalog) for part in parts)
            or (select.distinct and select.window is not None)
        )

    def _aggregate(self, node: Node) -> tuple[Node, tuple[Named, ...]]:
        select = self.select
        scope = Scope(node.schema)
        tuples = ExpressionBinder(scope, self.catalog, "GROUP BY")
        bound = self._window(node, tuples)
        if bound is not None:
            given, window = node, bound.window
            place = select.window.span if select.window is not None else select.span
            node = pointing_at(place, lambda: to_be_counted(given, window, bound.partition))
        keys = self._keys(tuples, bound)
        window_fields: list[Field] = []
        if bound is not None:
            shape = WindowAggregate(node, bound.window, bound.attribute, (), (), ())
            window_fields = list(shape.schema)
        binder = GroupBinder(scope, self.catalog, keys, window_fields)
        found = []
        for item in select.items:
            if self._star(item, node.schema) is not None:
                raise BindError("* cannot stand beside aggregates", span=item.span)
            found.append((binder.bind(item.expression), item))
        having = None
        if select.having is not None:
            having = binder.condition(select.having, "HAVING")
        aggregates = tuple(binder.aggregates)
        grouped: Node
        if bound is None:
            if not any(node.promise(key.expression) for key in keys):
                raise self._endless("an aggregate", "GROUP BY columns")
            grouped = GroupAggregate(node, tuple(keys), aggregates, select.span)
        else:
            partition = tuple(key for key in keys if key.expression in bound.partition)
            grouped = pointing_at(
                select.span,
                lambda: WindowAggregate(
                    node,
                    bound.window,
                    bound.attribute,
                    partition if shape.counts_rows else (),
                    tuple(keys),
                    aggregates,
                    self._algorithm(),
                    select.span,
                ),
            )
        if having is not None:
            grouped = Filter(grouped, having)
        columns = named(found)
        if window_fields and not self._selects_window_columns():
            bounds = [f for f in window_fields if f.name in ("window_start", "window_end")]
            columns = (*(Named(field.name, Column.of(field)) for field in bounds), *columns)
        return grouped, columns

    def _algorithm(self) -> Algorithm | None:
        hint = self.select.hint
        if hint is None:
            return None
        names = [each.name for each in Algorithm]
        if hint.text.upper() not in names:
            close = nearest(hint.text, names)
            raise BindError(
                f"{hint.text!r} is not an algorithm",
                span=hint.span,
                expected=f"one of {', '.join(names)}",
                hint=f"/*+ {close[0]} */" if close else None,
            )
        return Algorithm[hint.text.upper()]

    def _window(self, node: Node, tuples: ExpressionBinder) -> BoundWindow | None:
        select = self.select
        if select.window is not None:
            if select.window_all is not None and not isinstance(node, Join | Difference):
                raise BindError("the aggregate has two windows", span=select.window_all.span)
            return WindowBinder(select.window, node, tuples).bind()
        if select.window_all is None:
            return None
        # WINDOW d: every tuple opens a window over the last d, as in the queries of Nile.
        attribute: Expression
        if isinstance(node, Join):
            times = node.attributes
            attribute = Call("greatest", times, times[0].type)
        else:
            attribute = only_progressing(node, select.window_all.span, "WA")
        length = positive(select.window_all, ticks(select.window_all, Domain(attribute.type)))
        return BoundWindow(SlideByTuple(length, 1, Order.ARRIVAL), attribute, ())

    def _keys(self, tuples: ExpressionBinder, bound: BoundWindow | None) -> list[Named]:
        select = self.select
        expressions = [self._key(syntax, tuples) for syntax in select.group_by]
        expressions += bound.partition if bound else ()
        aggregates = any(has_aggregate(item.expression, self.catalog) for item in select.items)
        if select.distinct and select.window is not None and not aggregates:
            expressions += [
                tuples.bind(item.expression)
                for item in select.items
                if item.text.lower() not in WINDOW_COLUMNS
            ]
        return [Named(str(each), each) for each in dict.fromkeys(expressions)]

    def _key(self, syntax: exp.Expr, tuples: ExpressionBinder) -> Expression:
        """A key is an expression, the alias of one that is selected, or its number."""
        items = self.select.items
        if isinstance(syntax, exp.Literal) and not syntax.is_string:
            if not syntax.name.isdigit() or not 1 <= int(syntax.name) <= len(items):
                raise BindError(f"there is no column number {syntax.name}", span=span_of(syntax))
            return tuples.bind(items[int(syntax.name) - 1].expression)
        bare = isinstance(syntax, exp.Column) and not syntax.table
        if bare and not tuples.scope.matches(syntax.name, None):
            for item in items:
                if item.alias and item.alias.text.casefold() == syntax.name.casefold():
                    return tuples.bind(item.expression)
        return tuples.bind(syntax)

    def _selects_window_columns(self) -> bool:
        return any(
            isinstance(node, exp.Column) and not node.table and node.name.lower() in WINDOW_COLUMNS
            for item in self.select.items
            for node in item.expression.walk()
        )

    def _distinct_rows(self) -> bool:
        """Whether DISTINCT is left to do after aggregation: keys are distinct already."""
        select = self.select
        if not select.distinct:
            return False
        grouped_by_distinct = select.window is not None and not any(
            has_aggregate(item.expression, self.catalog) for item in select.items
        )
        return not grouped_by_distinct

    def _endless(self, what: str, columns: str) -> BindError:
        return BindError(
            f"{what} over an endless stream never completes without a window",
            span=self.select.span,
            expected=f"a window, or a column that progresses among the {columns}",
            hint="[RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts] after the SELECT list",
        )


def named(found: list[tuple[Expression, SelectItem]]) -> tuple[Named, ...]:
    """Output columns under their aliases, their own names, or their text; told apart by relation
    where two would have the same name, then by a number."""
    plain = [_plain_name(expression, item) for expression, item in found]
    full = {(name, str(expression)) for name, (expression, _) in zip(plain, found, strict=True)}
    repeated = {name for name, count in Counter(name for name, _ in full).items() if count > 1}
    names: dict[str, None] = {}  # a set that keeps its order
    counts: Counter[str] = Counter()
    for name, (expression, item) in zip(plain, found, strict=True):
        if name in repeated and item.alias is None and isinstance(expression, Column):
            name = str(expression)
        if name in names and item.alias is not None:
            raise BindError(f"two columns are called {name!r}", span=item.alias.span)
        counts[name] += 1
        numbered = name if counts[name] == 1 else f"{name}_{counts[name]}"
        while numbered in names:
            counts[name] += 1
            numbered = f"{name}_{counts[name]}"
        names[numbered] = None
    return tuple(
        Named(
            name, cast_to(expression, STRING) if expression.type.kind is Kind.NULL else expression
        )
        for name, (expression, _) in zip(names, found, strict=True)
    )


def _plain_name(expression: Expression, item: SelectItem) -> str:
    if item.alias is not None:
        return item.alias.text
    syntax = item.expression
    if isinstance(syntax, exp.Column) and not isinstance(syntax.this, exp.Star):
        return syntax.name
    return expression.name if isinstance(expression, Column) and "*" in item.text else item.text


def _filtered(node: Node, predicates: list[Expression]) -> Node:
    """The node with its own conditions; LATENT timestamps are filled in as late as they can be."""
    later = stamped(node)
    if later is node:
        predicate = all_of(predicates)
        return Filter(node, predicate) if predicate is not None else node
    latent = later.column  # type: ignore[attr-defined]
    before = all_of([p for p in predicates if latent not in columns_of(p)])
    after = all_of([p for p in predicates if latent in columns_of(p)])
    node = Filter(node, before) if before is not None else node
    node = stamped(node)
    return Filter(node, after) if after is not None else node
