"""SELECT DISTINCT ON: one row of every key and window."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.errors import BindError
from penstock.model.types import Field
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Column, Expression, columns_of
from penstock.plan.nodes.aggregation import DistinctOn, WindowAggregate
from penstock.plan.nodes.node import Node, Project
from penstock.plan.window_kinds import Sliding
from penstock.sql.binder.aggregates import has_aggregate
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.from_clause import BoundFrom
from penstock.sql.binder.literals import span_of
from penstock.sql.binder.relations import pointing_at
from penstock.sql.binder.scope import Scope
from penstock.sql.binder.select_items import (
    named,
    selects_window_columns,
    star_columns,
    with_window_bounds,
)
from penstock.sql.binder.windows import HOW_TO_RUN, WindowBinder
from penstock.sql.syntax import LimitClause, Select, SelectItem, clauses_besides


def bind_distinct_on(select: Select, given: BoundFrom, catalog: Catalog) -> Node:
    """Bind DISTINCT ON: the first row of every key by the windowing attribute, or the last where
    ORDER BY descends, with the columns that the SELECT list uses."""
    node = given.node
    _refuse_others(select, catalog)
    _refuse_unread(select, given)
    scope = given.scope(given.schema)
    tuples = ExpressionBinder(scope, catalog, "DISTINCT ON")
    keys = tuple(dict.fromkeys(_key(each, select, tuples) for each in select.distinct_on))
    window, attribute = _window(select, node, keys, tuples)
    last = _takes_last(select, keys, attribute, tuples)
    shape = WindowAggregate(node, window, attribute, (), (), ())
    binder = _RowBinder(scope, catalog, list(shape.schema))
    found: list[tuple[Expression, SelectItem]] = []
    for item in select.items:
        stars = star_columns(item, binder, given.schema)
        found += [(binder.bind(item.expression), item)] if stars is None else stars
    looked_at = [column for expression, _ in found for column in columns_of(expression)]
    columns = tuple(dict.fromkeys(each for each in looked_at if each not in binder.window_columns))
    columns = columns or tuple(columns_of(attribute)[:1])  # something has to stand for the row
    rows = pointing_at(
        select.span,
        lambda: DistinctOn(node, window, attribute, keys, columns, last, select.span),
    )
    shown = named(found)
    if select.window is not None and not selects_window_columns(select.items):
        shown = with_window_bounds(shown, rows.schema)
    return pointing_at(select.span, lambda: Project(rows, shown))


def by_first_rows(select: Select, catalog: Catalog) -> Select:
    """
    before: SELECT DISTINCT ON (k) k, x FROM s ORDER BY t DESC EMIT CHANGES
    after:  SELECT k, x FROM s ORDER BY t DESC LIMIT 1 BY k EMIT CHANGES
    """
    runs = catalog.running is not None and select.window is None
    if not select.distinct_on or not runs or select.limit is not None:
        return select
    _refuse_others(select, catalog)
    limit = LimitClause(1, select.distinct_on, select.span)
    return replace(select, distinct_on=(), limit=limit)


class _RowBinder(ExpressionBinder):
    """Binds expressions over rows that have window columns."""

    def __init__(self, scope: Scope, catalog: Catalog, window: list[Field]) -> None:
        super().__init__(scope, catalog, "this SELECT")
        self._window = {field.name: field for field in window}
        self.window_columns = {Column.of(field) for field in window}

    def column(self, syntax: exp.Column) -> Expression:
        name = syntax.name.lower()
        if not syntax.table and name in self._window:
            return Column.of(self._window[name], span_of(syntax))
        return super().column(syntax)


_READ = ("items", "distinct_on", "window", "chains", "where", "order_by", "hint")


def _refuse_unread(select: Select, given: BoundFrom) -> None:
    """Refuse the clauses next to DISTINCT ON that would apply to its result."""
    others = clauses_besides(select, (*_READ, "window_all") if given.stays else _READ)
    if others:
        raise BindError(
            f"DISTINCT ON takes a row of every key and window, and {' and '.join(others)} would"
            " look at these rows",
            span=select.span,
            hint="SELECT … FROM (SELECT DISTINCT ON …) AS q, and the clause there",
        )


def _refuse_others(select: Select, catalog: Catalog) -> None:
    hint = "DISTINCT ON in a sub-query, or first(…) and last(…) with GROUP BY"
    if select.group_by or select.having is not None:
        raise BindError(
            "DISTINCT ON takes rows as they are, and GROUP BY makes new ones",
            span=select.span,
            hint=hint,
        )
    for item in select.items:
        if has_aggregate(item.expression, catalog):
            raise BindError(
                "DISTINCT ON takes rows as they are, without aggregates", span=item.span, hint=hint
            )


def _window(
    select: Select, node: Node, keys: tuple[Expression, ...], tuples: ExpressionBinder
) -> tuple[Sliding, Expression]:
    """Window of the query and its attribute. Without one, rows with equal values of a progressing
    key are together, and complete when a bound has passed that."""
    if select.window is None:
        for key in keys:
            if node.promise(key) is not None:
                return Sliding(1, 1), key
        raise BindError(
            "DISTINCT ON would have to remember every key for ever",
            span=select.span,
            expected="a window, or a key that progresses",
            hint=f"[RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts] after the SELECT list; or {HOW_TO_RUN}",
        )
    bound = WindowBinder(select.window, node, tuples).bind()
    if not isinstance(bound.window, Sliding) or bound.partition:
        raise BindError(
            "DISTINCT ON takes rows from windows over values",
            span=select.window.span,
            expected="RANGE and SLIDE in values of an attribute",
            hint="[RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts]",
        )
    assert bound.attribute is not None
    return bound.window, bound.attribute


def _key(syntax: exp.Expr, select: Select, tuples: ExpressionBinder) -> Expression:
    """Bind a key: an expression, or the alias of a SELECT item."""
    bare = isinstance(syntax, exp.Column) and not syntax.table
    if bare and not tuples.scope.matches(syntax.name, None):
        for item in select.items:
            if item.alias and item.alias.text.casefold() == syntax.name.casefold():
                return tuples.bind(item.expression)
    return tuples.bind(syntax)


def _takes_last(
    select: Select, keys: tuple[Expression, ...], attribute: Expression, tuples: ExpressionBinder
) -> bool:
    """Whether ORDER BY asks for the last row of a key, not for the first. It may name the keys
    before the time, as PostgreSQL demands it."""
    for place, item in enumerate(select.order_by):
        found = tuples.bind(item.expression)
        if found == attribute and place == len(select.order_by) - 1:
            return item.descending
        if found not in keys:
            raise BindError(
                "rows are the first or the last by the time of their window",
                span=item.span,
                expected=f"ORDER BY {attribute}, or ORDER BY {attribute} DESC",
            )
    if select.order_by:
        raise BindError(
            "ORDER BY does not say which row of a key is taken",
            span=select.order_by[-1].span,
            expected=f"ORDER BY …, {attribute}, or ORDER BY …, {attribute} DESC",
        )
    return False
