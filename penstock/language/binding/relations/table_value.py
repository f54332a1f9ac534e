"""A query in brackets that stands for a value: over tables, which are complete."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.errors import BindError
from penstock.language.binding.relations.relations import refuse_modifiers
from penstock.language.binding.scalars.literals import span_of
from penstock.language.syntax.queries import QuerySyntax
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Literal, TableValue
from penstock.plan.identity.identity import answer_stream
from penstock.plan.nodes.tables import OneRow
from penstock.plan.properties.reading import reads_tables


def table_value(syntax: exp.Subquery, catalog: Catalog) -> TableValue:
    from penstock.language.binding.select import bind_query  # queries hold expressions

    query, span = syntax.this, span_of(syntax)
    assert isinstance(query, QuerySyntax)
    refuse_modifiers(query)
    node = bind_query(query, replace(catalog, running=None, complete=False)).input
    if not reads_tables(node):
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
    made = OneRow(node, (Literal(None, field.type),), span)
    return TableValue(answer_stream(made), field.type, span=span)
