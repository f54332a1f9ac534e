"""WITH: the names that a query has for queries of its own."""

from __future__ import annotations

from penstock.errors import BindError
from penstock.language.binding.relations.columns import with_columns
from penstock.language.binding.relations.relations import refuse_modifiers
from penstock.language.syntax.queries import CommonTable
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.query import QueryPlan


def with_tables(tables: tuple[CommonTable, ...], catalog: Catalog) -> Catalog:
    """The catalog as the query sees it: each table knows those before it, and hides what has its
    name elsewhere."""
    seen: set[str] = set()
    for table in tables:
        key = table.name.text.casefold()
        if key in seen:
            raise BindError(f"two queries are called {table.name.text!r}", span=table.name.span)
        seen.add(key)
        catalog = catalog.hiding(table.name.text, _bound(table, catalog))
    return catalog


def _bound(table: CommonTable, catalog: Catalog) -> QueryPlan:
    from penstock.language.binding.select import bind_query  # which begins with these

    refuse_modifiers(table.query)
    plan = bind_query(table.query, catalog)
    if not table.columns:
        return plan
    return QueryPlan(with_columns(plan.input, table.name.text, table.columns, table.span))
