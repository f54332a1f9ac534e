"""explode and unnest in a SELECT list, as Spark and DuckDB have them: the relation is unnested, and
its item, and what comes with it, stand in their place."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.errors import BindError
from penstock.language.binding.scalars.literals import span_of
from penstock.language.syntax.names import Name
from penstock.language.syntax.queries import Select, SelectItem
from penstock.language.syntax.relations import JoinChain, Relation, UnnestedRelation
from penstock.plan.catalog import Catalog

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
    taken, inside = _taken(item, call, relation, bool(select.group_by))
    items = tuple(taken if each is item else each for each in select.items)
    return replace(select, items=items, chains=(JoinChain(inside, ()),))


def _taken(
    item: SelectItem, call: exp.Anonymous, relation: Relation, grouped: bool
) -> tuple[SelectItem, UnnestedRelation]:
    """What stands in the place of the call, and what it is taken from, whose columns are found by
    the name of the relation alone.  Only if there may be several, they are a star."""
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
