"""LIMIT over the tuples of a window, in words of a window as a relation."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.errors import BindError
from penstock.language.binding.groups.aggregates import has_aggregate
from penstock.language.binding.items import selects_window_columns
from penstock.language.syntax.names import Name
from penstock.language.syntax.queries import Select, SelectItem
from penstock.language.syntax.relations import (
    JoinChain,
    NamedRelation,
    SubqueryRelation,
    WindowedRelation,
)
from penstock.plan.catalog import Catalog

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
    """The items, and the bounds of the window in front of them, as with aggregates."""
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
