"""Clauses over rows of one result: LIMIT, QUALIFY, ORDER BY, and LIMIT over the tuples of a
window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from penstock.errors import BindError
from penstock.model.types import Field, free_name
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Column, Expression, columns_of
from penstock.plan.nodes.node import Filter, Node
from penstock.plan.nodes.over import NamedOver, Numbering, NumberKind, OrderKey
from penstock.plan.nodes.tables import OrderedRows
from penstock.sql.binder.aggregates import has_aggregate
from penstock.sql.binder.changelog import OverParts, over_rows
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.literals import span_of
from penstock.sql.binder.over import OverCalls
from penstock.sql.binder.select_items import selects_window_columns
from penstock.sql.binder.windows import HOW_TO_RUN
from penstock.sql.syntax import (
    JoinChain,
    Name,
    NamedRelation,
    Select,
    SelectItem,
    SubqueryRelation,
    WindowedRelation,
)

_BOUNDS = ("window_start", "window_end")


def in_windows(select: Select, catalog: Catalog) -> Select:
    """
    before: SELECT k, x [RANGE 10, SLIDE 5, WA t] FROM s ORDER BY x LIMIT 3
    after:  SELECT window_start, window_end, k, x FROM WINDOWED(s [RANGE 10, SLIDE 5, WA t])
            ORDER BY x LIMIT 3 BY window_end, window_start
    """
    if select.limit is None or select.window is None or _folds(select, catalog):
        return select
    by = (exp.column("window_end"), exp.column("window_start"), *select.limit.by)
    return replace(
        select,
        items=_with_bounds(select),
        window=None,
        chains=(JoinChain(_windowed(select), ()),),
        limit=replace(select.limit, by=by),
    )


def _folds(select: Select, catalog: Catalog) -> bool:
    if select.group_by or select.having is not None or select.distinct or select.distinct_on:
        return True
    return any(has_aggregate(item.expression, catalog) for item in select.items)


def _windowed(select: Select) -> WindowedRelation:
    window = select.window
    assert window is not None
    match select.chains:
        case (
            JoinChain(NamedRelation(window=None) | SubqueryRelation(window=None) as relation, ()),
        ):
            pass
        case _:
            raise BindError(
                "LIMIT over the tuples of a window takes one relation",
                span=window.span,
                hint="FROM (SELECT … FROM …) AS q, and its window behind the SELECT list",
            )
    attribute = window.attribute
    if attribute is None or attribute.column is None:
        raise BindError(
            "LIMIT over the tuples of a window wants to know which column it is over",
            span=window.span,
            hint="WA ts",
        )
    inside = replace(relation, window=window)
    return WindowedRelation(
        "WINDOWED", inside, attribute.column, (), relation.alias, None, relation.span
    )


def _with_bounds(select: Select) -> tuple[SelectItem, ...]:
    """Put the bounds of the window in front of the items, as with aggregates."""
    if selects_window_columns(select.items):
        return select.items
    span = select.items[0].span
    names = tuple(Name(each, span) for each in _BOUNDS)
    bounds = [SelectItem(exp.column(each), None, each, span) for each in _BOUNDS]
    return (*bounds, *(_without(item, names) for item in select.items))


def _without(item: SelectItem, names: tuple[Name, ...]) -> SelectItem:
    syntax = item.expression
    if isinstance(syntax, exp.Star) or isinstance(syntax.this, exp.Star):
        return replace(item, without=(*item.without, *names))
    return item


# QUALIFY, and ORDER BY … LIMIT n BY key: the rows of every window, or of every key, that come
# first.

Found: TypeAlias = list[tuple[Expression, SelectItem]]


class RowsBeside:
    """Binds the clauses of a SELECT that compare rows: OVER, QUALIFY, ORDER BY and LIMIT."""

    def __init__(self, select: Select, binder: ExpressionBinder) -> None:
        self._select, self._binder = select, binder
        self._overs = OverCalls(binder, select.windows)

    def look(self, found: Found) -> None:
        """Bind the clauses behind the SELECT list, of which the items are `found`."""
        select = self._select
        self._shown = [expression for expression, _ in found]
        self._condition = None
        if select.qualify is not None:
            self._condition = self._qualifying(select.qualify, found)
        self._order = tuple(
            OrderKey(self._named(each.expression, found), each.descending, each.nulls_first)
            for each in select.order_by
        )
        self._overs.check_unused()
        self._by = [self._named(each, found) for each in select.limit.by] if select.limit else []

    def above(self, node: Node, window: Sequence[Field]) -> Node:
        """Put OVER, QUALIFY, ORDER BY and LIMIT above a node; `window` are the columns of the
        window that the SELECT is over."""
        condition = self._condition
        looked_at = [*self._shown, *([] if condition is None else [condition])]
        node = self._overs.above(node, self._overs.looked_at(looked_at))
        if condition is not None:
            node = Filter(node, condition)
        columns = dict.fromkeys(each for one in self._shown for each in columns_of(one))
        if self._select.limit is not None:
            node = self._limited(node, [*map(Column.of, window), *self._by], tuple(columns))
        if not self._order or not self._binder.catalog.complete:
            return node
        return OrderedRows(node, self._order, tuple(columns), self._select.span)

    def _limited(self, node: Node, partition: list[Expression], ties: tuple[Column, ...]) -> Node:
        limit = self._select.limit
        assert limit is not None
        running = self._binder.catalog.running
        completes = any(node.promise(each) for each in partition)
        if not completes and running is None:
            known = next((each.field.qualified for each in node.progress), "ts")
            ways = [
                f"[RANGE 1 MINUTE, SLIDE 1 MINUTE, WA {known}] after the SELECT list",
                f"LIMIT {limit.rows or 10} BY {known}",
            ]
            if known.rpartition(".")[2].startswith("window_"):  # there are windows
                ways.reverse()
            raise BindError(
                "the first rows of an endless stream are never known",
                span=limit.span,
                expected="a window, or a column that progresses behind LIMIT … BY",
                hint=f"{', or '.join(ways)}; or {HOW_TO_RUN}",
            )
        name = free_name("row_number() OVER", [field.name for field in node.schema])
        calls = (NamedOver(name, Numbering(NumberKind.ROW_NUMBER)),)
        by = tuple(dict.fromkeys(partition))
        most = None if limit.rows is None else (0, limit.rows + limit.offset)
        parts = OverParts(node, by, self._order, ties, calls, most, limit.span, limit.offset, True)
        return over_rows(parts, running, completes)

    def _qualifying(self, syntax: exp.Expr, found: Found) -> Expression:
        condition = self._binder.condition(self._without_aliases(syntax, found), "QUALIFY")
        if not self._overs:
            raise BindError("QUALIFY needs OVER", span=span_of(syntax), hint="WHERE")
        return condition

    def _without_aliases(self, syntax: exp.Expr, found: Found) -> exp.Expr:
        """Replace the aliases of SELECT items in an expression."""
        aliased = {item.alias.text.casefold(): item.expression for _, item in found if item.alias}
        scope = self._binder.scope

        def written(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and not node.table:
                name = node.name.casefold()
                if name in aliased and not scope.matches(node.name, None):
                    return aliased[name].copy()
            return node

        return syntax.copy().transform(written)

    def _named(self, syntax: exp.Expr, found: Found) -> Expression:
        """Bind an expression, the alias of a SELECT item, or its number."""
        if isinstance(syntax, exp.Literal) and not syntax.is_string:
            if not syntax.name.isdigit() or not 1 <= int(syntax.name) <= len(found):
                raise BindError(f"there is no column number {syntax.name}", span=span_of(syntax))
            return found[int(syntax.name) - 1][0]
        if isinstance(syntax, exp.Column) and not syntax.table:
            for expression, item in found:
                if item.alias and item.alias.text.casefold() == syntax.name.casefold():
                    return expression
        return self._binder.bind(self._without_aliases(syntax, found))


def refuse_order_alone(select: Select) -> None:
    """Refuse ORDER BY without LIMIT: rows of a stream have no final order; those of tables have."""
    if select.order_by and select.limit is None and not select.distinct_on:
        raise BindError(
            "ORDER BY alone is not part of a continuous query",
            span=select.order_by[0].span,
            expected="tables, which are complete, or LIMIT behind it",
            hint="EMIT IN ORDER, ORDER BY … LIMIT n in a window, or sort where the rows arrive",
        )


def refuse_limit_of_many(selects: Sequence[Select]) -> None:
    """Refuse LIMIT behind UNION and the like, where it would apply to all SELECTs together."""
    for select in selects if len(selects) > 1 else ():
        refuse_order_alone(select)
        if select.limit is not None:
            raise BindError(
                "LIMIT cannot stand behind UNION, INTERSECT or EXCEPT",
                span=select.limit.span,
                hint="SELECT * FROM (… UNION ALL …) ORDER BY … LIMIT …",
            )
