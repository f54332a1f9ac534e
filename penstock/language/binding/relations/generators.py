"""explode and unnest in a SELECT list, as Spark and DuckDB have them: the relation is unnested, and
its item stands in their place."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.errors import BindError
from penstock.language.binding.scalars.literals import span_of
from penstock.language.syntax import JoinChain, Name, Select, SelectItem, UnnestedRelation
from penstock.plan.catalog import Catalog

_GENERATORS = ("unnest", "explode", "explode_outer")
_WITH_NUMBERS = ("posexplode", "posexplode_outer")
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
    if name in _WITH_NUMBERS:
        raise BindError(
            f"{name} gives two columns, and stands behind LATERAL VIEW",
            span=span,
            hint=f"FROM s LATERAL VIEW {name}(s.items) u AS pos, item",
        )
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
    column, alias = Name(item.text, item.span), Name(f"{name} of a SELECT list", item.span)
    outer = name.endswith("_outer")
    inside = UnnestedRelation(
        relation, call.expressions[0], alias, (column,), outer, False, item.span
    )
    part = exp.column(column.text, table=alias.text, quoted=True)
    part.meta.update(call.meta)
    called = item.alias or Name(item.text if name == "unnest" else "col", item.span)
    taken = replace(item, expression=part, alias=called)
    items = tuple(taken if each is item else _without(each, column) for each in select.items)
    return replace(select, items=items, chains=(JoinChain(inside, ()),))


def _is_generator(call: exp.Anonymous, catalog: Catalog) -> bool:
    name = str(call.name).lower()
    return name in (*_GENERATORS, *_WITH_NUMBERS) and catalog.function(name) is None


def _without(item: SelectItem, column: Name) -> SelectItem:
    """`*` is what the relation had before."""
    if not isinstance(item.expression, exp.Star):
        return item
    return replace(item, without=(*item.without, column))
