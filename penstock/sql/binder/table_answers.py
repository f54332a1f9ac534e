"""Queries over tables alone: all rows are known when a run begins, so every answer is complete, and
is a table itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp

from penstock.errors import BindError, PlanError
from penstock.model.types import INT, free_name
from penstock.plan.catalog import Catalog, RunningAnswers
from penstock.plan.expressions import Column, Expression, Literal, Named, TableValue
from penstock.plan.identity import answer_stream
from penstock.plan.nodes.aggregation import GroupAggregate
from penstock.plan.nodes.join import RunningJoin
from penstock.plan.nodes.node import Node, Project, Scan
from penstock.plan.nodes.over import NamedOver, Numbering, NumberKind, OrderKey, RunningOver
from penstock.plan.nodes.tables import OrderedRows, OrElse
from penstock.plan.properties import reads_tables
from penstock.sql.binder.aggregates import GroupingSets
from penstock.sql.binder.changelog import OverParts, over_rows
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.literals import span_of
from penstock.sql.binder.relations import refuse_modifiers
from penstock.sql.binder.scope import Scope
from penstock.sql.syntax import LimitClause, OrderItem, QuerySyntax, Select, SelectItem


class AnswerOrder(NamedTuple):
    """ORDER BY and LIMIT behind DISTINCT or UNION, which apply to the resulting rows. The items of
    the SELECT list tell which column an expression is."""

    order_by: tuple[OrderItem, ...]
    limit: LimitClause | None
    items: tuple[SelectItem, ...] = ()


def of_tables(catalog: Catalog) -> Catalog:
    """Return the catalog for a query that reads tables alone."""
    if catalog.complete:
        return catalog
    return replace(catalog, running=RunningAnswers(), complete=True)


def answered(node: Node, nested: bool = False) -> Node:
    """Make a table of the rows of a query over tables, if it takes state to compute them. Windows
    over a table emit rows as they close, unless another query reads them (`nested`)."""
    if not reads_tables(node):
        return node
    kept = [each for each in node.walk() if each.stateful]
    if not any(nested or _needs_all(each) for each in kept):
        return node
    stream = answer_stream(node)
    columns = tuple(
        Named(field.name, Column(field.name, field.type, stream.name)) for field in node.schema
    )
    return Project(Scan(stream, stream.name), columns, node.schema.fields[0].relation)


def _needs_all(node: Node) -> bool:
    runs = isinstance(node, GroupAggregate) and node.runs
    return runs or isinstance(node, RunningJoin | RunningOver | OrderedRows | OrElse)


def with_totals(node: Node, sets: GroupingSets) -> Node:
    """Add the row that the empty grouping set has even without input, as aggregates without GROUP
    BY do."""
    totals = [number for number, own in enumerate(sets.sets) if not own]
    if not isinstance(node, GroupAggregate) or not totals:
        return node
    made = tuple(
        Literal(0 if each.call.function.name == "count" else None, each.call.type)
        for each in node.aggregates
    )
    keys = [key.expression.type for key in node.keys]
    if sets.is_several:  # the last key is the number of the set
        rows = [[*(Literal(None, each) for each in keys[:-1]), Literal(n, INT)] for n in totals]
    else:
        rows = [[]]
    return OrElse(node, tuple((*row, *made) for row in rows), span=node.span)


def taken_apart(selects: Sequence[Select]) -> tuple[Sequence[Select], AnswerOrder | None]:
    """Split off ORDER BY and LIMIT behind UNION and the like, where they apply to all rows."""
    if len(selects) == 1:
        return selects, None
    plain, rows = ordered_apart(selects[-1])
    if plain is selects[-1]:
        return selects, None
    return [*selects[:-1], plain], rows._replace(items=selects[0].items)


def ordered_apart(select: Select) -> tuple[Select, AnswerOrder]:
    rows = AnswerOrder(select.order_by, select.limit, select.items)
    if select.distinct_on or (not select.order_by and select.limit is None):
        return select, rows
    return replace(select, order_by=(), limit=None), rows


def in_order(node: Node, rows: AnswerOrder, catalog: Catalog) -> Node:
    """Sort the rows of a node, and keep the first ones if there is a limit."""
    node = answered(node, nested=True)
    binder = ExpressionBinder(Scope(node.schema), catalog, "ORDER BY")
    order = tuple(
        OrderKey(column, each.descending, each.nulls_first)
        for each in rows.order_by
        for column in [_column(each.expression, node, rows.items, binder)]
    )
    ties = tuple(map(Column.of, node.schema))
    limit = rows.limit
    if limit is not None:
        by = tuple(_column(each, node, rows.items, binder) for each in limit.by)
        name = free_name("row_number() OVER", [field.name for field in node.schema])
        calls = (NamedOver(name, Numbering(NumberKind.ROW_NUMBER)),)
        most = None if limit.rows is None else (0, limit.rows + limit.offset)
        parts = OverParts(node, by, order, ties, calls, most, limit.span, limit.offset, True)
        node = over_rows(parts, catalog.running, final=False)
    if order:
        node = OrderedRows(node, order, ties)
    # the values of other tables that an order may look at are no columns of the rows
    columns = tuple(Named(each.name, each) for each in ties)
    return Project(node, columns, ties[0].relation)


def _column(
    syntax: exp.Expr, node: Node, items: tuple[SelectItem, ...], binder: ExpressionBinder
) -> Expression:
    """Resolve a resulting column: by its number, its name, or the expression that it is."""
    fields = node.schema.fields
    if isinstance(syntax, exp.Literal) and not syntax.is_string:
        if not syntax.name.isdigit() or not 1 <= int(syntax.name) <= len(fields):
            raise BindError(f"there is no column number {syntax.name}", span=span_of(syntax))
        return Column.of(fields[int(syntax.name) - 1])
    plain = len(items) == len(fields)
    for item, field in zip(items, fields, strict=False) if plain else ():
        if item.expression == syntax:
            return Column.of(field)
    return binder.bind(syntax)


# A query in brackets that stands for a value: over tables, which are complete.


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
    """Bind a sub-query that reads tables alone; None if it reads a stream. It does not see the
    columns of `scope`, which are those of the query around it."""
    from penstock.sql.binder.select import bind_query

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
    """Return the unknown column that an error is about, if any."""
    span = error.span
    if span is None or span.text is None:
        return None
    if not error.message.startswith(("unknown column", "there is no relation")):
        return None
    return span.text[span.start : span.end].replace("`", "").split(".")
