"""Aggregation by key, and distinct: groups that are complete once a progressing key is passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.model.domain import Domain
from penstock.model.schema import Schema
from penstock.plan.aggregates import Distinct, GroupAggregate
from penstock.plan.expressions import Column, Expression
from penstock.reference.grouping import grouper
from penstock.reference.relation import Relation, Row, bound_evaluator, field_key, tick_bound
from penstock.reference.run import LateTuple, Run
from penstock.scalars.evaluate import evaluator
from penstock.scalars.ordering import canonical, shown


def group_aggregate(node: GroupAggregate, given: Relation, run: Run) -> Relation:
    progressing = {each.field.name for each in node.progress}
    expressions = [key.expression for key in node.keys if key.name in progressing]
    rows = in_time(given, expressions, run)
    groups = grouper(node.keys, node.aggregates, given.schema)
    domain = Domain(node.position.type)
    position = evaluator(node.position, given.schema)
    placed = ((row, domain.tick(position(row.values))) for row in rows)
    answers = [Row(answer) for answer in groups(placed)]
    return Relation(node.schema, answers, reached(node.schema, node.progress, answers))


def distinct(node: Distinct, given: Relation, run: Run) -> Relation:
    expressions: list[Expression] = [Column.of(each.field) for each in node.progress]
    seen: dict[Any, Row] = {}
    for row in in_time(given, expressions, run):
        seen.setdefault(tuple(map(canonical, row.values)), Row(tuple(map(shown, row.values))))
    return Relation(node.schema, list(seen.values()), given.high)


def in_time(given: Relation, expressions: list[Expression], run: Run) -> list[Row]:
    """The rows that are not below the bound of any of the expressions; the others are late as a
    whole, and kept only if late rows count."""
    tests = [
        (_bound_broken(expression, given.schema), run.late_at(given.schema, expression.type))
        for expression in expressions
    ]
    kept = []
    for row in given.rows:
        for test, late in tests:
            broken = test(row)
            if broken is not None:
                late.tuples.append(LateTuple(row.values, broken))
                break
        if broken is None or run.keeps_late:
            kept.append(row)
    return kept


def _bound_broken(expression: Expression, schema: Schema) -> Callable[[Row], Any]:
    """The bound that a row is below, or None."""
    domain = Domain(expression.type)
    value, bound = evaluator(expression, schema), bound_evaluator(expression)

    def test(row: Row) -> Any:
        found, limit = value(row.values), bound(row.bounds)
        return limit if domain.tick(found) < tick_bound(domain, limit) else None

    return test


def reached(schema: Schema, progress: Any, answers: list[Row]) -> dict[Any, Any]:
    """How far the progressing columns of an answer have come."""
    if not answers:
        return {}
    return {
        field_key(each.field): max(
            row.values[schema.index(each.field.name, each.field.relation)] for row in answers
        )
        for each in progress
    }
