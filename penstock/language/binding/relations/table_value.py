"""A query in brackets that stands for a value: over tables, which are complete."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.errors import BindError, PlanError
from penstock.language.binding.relations.relations import refuse_modifiers
from penstock.language.binding.scalars.literals import span_of
from penstock.language.binding.scope import Scope
from penstock.language.syntax.queries import QuerySyntax
from penstock.plan.catalog import Catalog, RunningAnswers
from penstock.plan.expressions import Literal, TableValue
from penstock.plan.identity.identity import answer_stream
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.tables import OrElse
from penstock.plan.properties.reading import reads_tables


def table_value(syntax: exp.Subquery, scope: Scope, catalog: Catalog) -> TableValue:
    query, span = syntax.this, span_of(syntax)
    assert isinstance(query, QuerySyntax)
    if catalog.bound is None:  # no query is bound, but a stream, SPLIT or the like
        raise BindError("a sub-query cannot stand here", span=span, expected="a query around it")
    refuse_modifiers(query)
    node = table_query(query, scope, catalog, "a query that stands for a value")
    if node is None:
        raise BindError(
            "a query that stands for a value reads tables, and this one reads a stream, whose value"
            " goes on changing",
            span=span,
            expected="tables alone",
            hint="a join with the query in FROM: JOIN (SELECT …) AS q ON …",
        )
    if len(node.schema) != 1:
        raise BindError(
            f"a query that stands for a value has {len(node.schema)} columns",
            span=span,
            expected="one",
        )
    (field,) = node.schema
    made = OrElse(node, ((Literal(None, field.type),),), True, span)
    return TableValue(answer_stream(made), field.type, span=span)


def table_query(query: QuerySyntax, scope: Scope, catalog: Catalog, what: str) -> Node | None:
    """A sub-query that reads tables alone; None if it reads a stream.  It does not see the columns
    of `scope`, which are those of the query around it."""
    from penstock.language.binding.select import bind_query  # queries hold expressions

    try:
        node = bind_query(query, replace(catalog, running=None, complete=False)).input
    except (BindError, PlanError) as error:
        name = _column_at(error)
        if name is not None and scope.matches(name[-1], name[0] if len(name) > 1 else None):
            raise BindError(
                f"{what} does not see the query around it, which has {'.'.join(name)!r}",
                span=error.span,
                expected="columns of its own tables",
                hint="JOIN (SELECT key, max(…) AS m FROM … GROUP BY key) AS q ON q.key = …",
            ) from None
        try:
            running = replace(catalog, running=RunningAnswers(), complete=False)
            node = bind_query(query, running).input
        except (BindError, PlanError):
            raise error from None
        if reads_tables(node):
            raise
    return node if reads_tables(node) else None


def _column_at(error: BindError | PlanError) -> list[str] | None:
    """The column that an error is about, if it is about one that is not known."""
    span = error.span
    if span is None or span.text is None:
        return None
    if not error.message.startswith(("unknown column", "there is no relation")):
        return None
    return span.text[span.start : span.end].replace("`", "").split(".")
