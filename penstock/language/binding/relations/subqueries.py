"""EXISTS and IN with a sub-query: which they are, and what they compare."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp

from penstock.errors import BindError, PlanError, Span
from penstock.language.binding.groups.aggregates import has_aggregate
from penstock.language.binding.relations.join_tree import Keys
from penstock.language.binding.scalars.coercion import alike
from penstock.language.binding.scalars.expressions import ExpressionBinder
from penstock.language.binding.scalars.literals import span_of
from penstock.language.syntax.queries import QuerySyntax, Select, SelectItem
from penstock.language.syntax.relations import JoinChain, SubqueryRelation
from penstock.model.types import BOOLEAN
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Call, Column, Expression, Literal, all_of, columns_of
from penstock.plan.properties.reading import reads_tables


class SubqueryTest(NamedTuple):
    """`[NOT] EXISTS (query)`, or `value [NOT] IN (query)`."""

    query: QuerySyntax
    value: exp.Expr | None
    negated: bool
    span: Span

    @property
    def word(self) -> str:
        return "EXISTS" if self.value is None else "IN"


def taken_apart(where: exp.Expr) -> tuple[list[exp.Expr], list[SubqueryTest]]:
    """The conditions of WHERE on tuples, and those that ask for tuples elsewhere."""
    if not any(_query_of(node) for node in where.walk()):
        return [where], []
    plain, tests = [], []
    waiting = [where]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Paren) and any(_query_of(node) for node in part.walk()):
            waiting.append(part.this)
        elif isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        elif (test := _test(part)) is not None:
            tests.append(test)
        else:
            plain.append(part)
    return plain, tests


def _test(part: exp.Expr) -> SubqueryTest | None:
    negated = False
    while isinstance(part, exp.Not | exp.Paren):
        negated ^= isinstance(part, exp.Not)
        part = part.this
    query = _query_of(part)
    if query is None:
        return None
    value = part.this if isinstance(part, exp.In) else None
    return SubqueryTest(query, value, negated, span_of(part) or query.span)


def _query_of(node: exp.Expr) -> QuerySyntax | None:
    found = node.args.get("query") if isinstance(node, exp.In) else None
    if isinstance(node, exp.Exists):
        found = node.this
    return found if isinstance(found, QuerySyntax) else None


def plain_select(test: SubqueryTest, catalog: Catalog) -> Select:
    """The one SELECT of the sub-query, which says nothing but which tuples are asked for."""
    query = test.query
    select = query.selects[0]
    said = {
        "UNION": len(query.selects) > 1,
        "WITH": bool(query.tables),
        "LATE, EMIT or CONSISTENCY": query.modifiers is not None,
        "DISTINCT ON": bool(select.distinct_on),
        "GROUP BY": bool(select.group_by),
        "HAVING": select.having is not None,
        "a window behind SELECT": select.window is not None,
        "a hint": select.hint is not None,
        "an aggregate": any(has_aggregate(item.expression, catalog) for item in select.items),
    }
    of_rows = (select.distinct, select.order_by, select.limit, select.qualify)
    if any(said.values()) or any(of_rows):
        around = _over_tables(query, catalog)
        if around is not None:
            return around
    for what, there in said.items():
        if there:
            raise BindError(
                f"the sub-query of {test.word} says which tuples are asked for, and has {what}",
                span=query.span,
                expected="SELECT … FROM … WHERE …",
                hint="a sub-query in its FROM: FROM (SELECT …) AS q WHERE …",
            )
    return select


def _over_tables(query: QuerySyntax, catalog: Catalog) -> Select | None:
    """
    before: a query over tables alone, with any clauses
    after:  SELECT * FROM (query)
    """
    from penstock.language.binding.select import bind_query  # queries hold conditions

    try:
        node = bind_query(query, replace(catalog, running=None, complete=False)).input
    except (BindError, PlanError):
        return None
    if not reads_tables(node):
        return None
    everything = SelectItem(exp.Star(), None, "*", query.span)
    chain = JoinChain(SubqueryRelation(query, None, None, query.span), ())
    return Select(
        (everything,), False, (), None, (chain,), None, (), None, None, (), None, query.span
    )


def compared(
    test: SubqueryTest, outer: ExpressionBinder, inner: ExpressionBinder, select: Select
) -> list[Expression]:
    """The condition that IN is, with the NULLs of SQL: a value that may be among the others is not
    known to be not among them."""
    given = [_columns(item, inner) for item in select.items]
    columns = [column for several in given for column in several]
    if test.value is None:
        return []
    values = _values(test.value)
    if len(values) != len(columns):
        raise BindError(
            f"the sub-query of IN has {len(columns)} column{'s' * (len(columns) != 1)}",
            span=test.span,
            expected=f"{len(values)}, as many as stand before IN",
        )
    equal = []
    for value, column in zip(values, columns, strict=True):
        try:
            pair = alike([outer.bind(value), column], "compare")
        except BindError as error:
            error.span = error.span or test.span
            raise
        equal.append(Call("eq", pair, BOOLEAN, span=test.span))
    if not test.negated:
        return list(equal)
    together = all_of(list(equal))
    assert together is not None
    return [Call("coalesce", (together, Literal(True, BOOLEAN)), BOOLEAN, span=test.span)]


def _values(value: exp.Expr) -> list[exp.Expr]:
    while isinstance(value, exp.Paren):
        value = value.this
    return list(value.expressions) if isinstance(value, exp.Tuple) else [value]


def _columns(item: SelectItem, binder: ExpressionBinder) -> list[Expression]:
    syntax = item.expression
    own = binder.scope.own
    if isinstance(syntax, exp.Star):
        return [Column.of(field) for field in own]
    if isinstance(syntax, exp.Column) and isinstance(syntax.this, exp.Star):
        relation = syntax.table.casefold()
        return [Column.of(f) for f in own if (f.relation or "").casefold() == relation]
    return [binder.bind(syntax)]


def refuse_far(predicate: Expression, known: Keys, span: Span) -> None:
    """A sub-query in a sub-query sees the one around it."""
    for column in columns_of(predicate):
        if (column.name, column.relation) not in known:
            raise BindError(
                f"{column} is of a query further out than the one right around this sub-query",
                span=column.span or span,
                hint="compare it in the query in between",
            )
