"""EXISTS and IN with a sub-query: which expressions they are, and what they compare."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from penstock.errors import BindError, Span
from penstock.model.types import BOOLEAN, Schema
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Call, Expression, Literal, all_of, columns_of
from penstock.sql.binder.aggregates import has_aggregate
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.joins import Keys
from penstock.sql.binder.literals import alike, span_of
from penstock.sql.binder.relations import unnested_items
from penstock.sql.binder.row_limits import RowsBeside
from penstock.sql.binder.scope import Scope
from penstock.sql.binder.select_items import star_columns
from penstock.sql.syntax import (
    JoinChain,
    QuerySyntax,
    Select,
    SelectItem,
    SubqueryRelation,
    clauses_besides,
)


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
    """Split the conditions of WHERE into those on tuples and those with sub-queries."""
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


_PLAIN = ("items", "distinct", "chains", "where")
"""What a SELECT may say that only asks which tuples there are; DISTINCT changes nothing there."""
_ANY_OF_THEM = ("order_by", "limit")
"""What does not matter where one row is as good as all of them."""


class SubqueryAsked(NamedTuple):
    """The SELECT of a sub-query; in a `plain` one the columns of the query around it can be
    named."""

    select: Select
    plain: bool
    clauses: str  # that kept it from being plain


def asked_tuples(test: SubqueryTest, catalog: Catalog) -> SubqueryAsked:
    """
    before: x IN (SELECT x FROM r ORDER BY y LIMIT 1 BY t)
    after:  x IN (SELECT * FROM (SELECT x FROM r ORDER BY y LIMIT 1 BY t))

    So every clause means what it means in FROM.  A plain SELECT is not changed, and may name
    columns of the query around it.
    """
    query, select = test.query, test.query.selects[0]
    exists = test.value is None
    read: tuple[str, ...] = _PLAIN
    if exists and select.limit is not None and not select.limit.offset:
        read = (*_PLAIN, *_ANY_OF_THEM)
    said = [*clauses_besides(query, ("selects",)), *clauses_besides(select, read)]
    if any(has_aggregate(item.expression, catalog) for item in select.items):
        said.append("an aggregate")
    if not exists and any(item.expression.find(exp.Window) for item in select.items):
        said.append("OVER")
    if unnested_items(select, catalog) is not select:
        said.append("UNNEST")
    if not said:
        return SubqueryAsked(select, True, "")
    everything = SelectItem(exp.Star(), None, "*", query.span)
    chain = JoinChain(SubqueryRelation(query, None, None, query.span), ())
    around = Select(
        (everything,), False, (), None, (chain,), None, (), None, None, (), None, query.span
    )
    return SubqueryAsked(around, False, " and ".join(dict.fromkeys(said)))


def refuse_correlated(error: BindError, test: SubqueryTest, outer: Scope, clauses: str) -> None:
    """Explain an unknown column that is a column of the query around the sub-query."""
    span = error.span
    if span is None or span.text is None:
        return
    relation, _, name = span.text[span.start : span.end].rpartition(".")
    if outer.matches(name, relation or None):
        raise BindError(
            f"the sub-query of {test.word} has {clauses}, so it is answered before the tuples"
            " around it are looked at, and cannot name their columns",
            span=span,
            expected="a sub-query of its own",
            hint="(a, b) IN (SELECT …), which compares what the sub-query selects",
        ) from None


def compared(
    test: SubqueryTest, outer: ExpressionBinder, inner: ExpressionBinder, asked: SubqueryAsked
) -> list[Expression]:
    """Bind the comparison of IN, with the NULLs of SQL: a value that may be equal to one of the
    others is not known to be different from all."""
    columns = _columns(asked.select, inner)
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


def _columns(select: Select, binder: ExpressionBinder) -> list[Expression]:
    """Bind the selected columns. ORDER BY is checked, too, although it has no effect."""
    beside = RowsBeside(select, binder)
    found: list[tuple[Expression, SelectItem]] = []
    for item in select.items:
        stars = star_columns(item, binder, Schema(binder.scope.own))
        found += [(binder.bind(item.expression), item)] if stars is None else stars
    beside.look(found)
    return [column for column, _ in found]


def refuse_far(predicate: Expression, known: Keys, span: Span) -> None:
    """Refuse columns of a query further out: a sub-query in a sub-query sees the one around it
    only."""
    for column in columns_of(predicate):
        if (column.name, column.relation) not in known:
            raise BindError(
                f"{column} is of a query further out than the one right around this sub-query",
                span=column.span or span,
                hint="compare it in the query in between",
            )
