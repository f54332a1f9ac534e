"""CREATE VIEW: a query under a name, whose answer may change for ever."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import BindError, PlanError
from penstock.language.binding.select import bind_query
from penstock.language.syntax.queries import QuerySyntax
from penstock.language.syntax.statements import CreateView
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.query import QueryPlan


def bind_view(statement: CreateView, catalog: Catalog) -> QueryPlan:
    """The query of a view, which may say EMIT CHANGES.  A MATERIALIZED one is what it is to those
    who have such: where it never completes, its answer changes."""
    asked = statement.query
    _refuse_others(asked)
    try:
        return bind_query(asked, catalog)
    except (BindError, PlanError):
        if not statement.materialized or asked.changes:
            raise
        try:
            return bind_query(replace(asked, changes=True), catalog)
        except (BindError, PlanError):
            pass  # the first error is about what was written
        raise


def _refuse_others(asked: QuerySyntax) -> None:
    others = (asked.late, asked.early, asked.consistency)
    if asked.in_order or any(each is not None for each in others):
        raise BindError(
            "LATE, EMIT EARLY, EMIT IN ORDER and CONSISTENCY belong to the query that reads a view",
            span=asked.modifiers,
            expected="EMIT CHANGES, or none of them",
        )
