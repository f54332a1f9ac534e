"""Aggregation by key, and distinct: groups that are complete once a progressing key is passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.model.domain import Domain
from penstock.model.punctuation import BEGINNING
from penstock.model.schema import Schema
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.aggregates import Distinct, GroupAggregate
from penstock.reference.distinct_items import distinct_items
from penstock.reference.grouping import grouper
from penstock.reference.relation import Relation, Row, bound_evaluator, field_key
from penstock.reference.run import LateTuple, Run
from penstock.scalars.evaluate import evaluator
from penstock.scalars.ordering import canonical, shown, sort_key


def group_aggregate(node: GroupAggregate, given: Relation, run: Run) -> Relation:
    if node.runs:
        return _running(node, given)
    rows = in_time(given, list(node.completing), run)
    groups = grouper(node.keys, node.aggregates, given.schema, node.key_order)
    domain = Domain(node.position.type)
    position = evaluator(node.position, given.schema)
    placed = ((row, domain.tick(position(row.values))) for row in rows)
    answers = [Row(answer) for answer in groups(placed)]
    if node.progress:  # they leave by the first key that completes them, then by all keys
        first = node.schema.names.index(node.progress[0].field.name)
        answers.sort(key=lambda row: sort_key(row.values[first]))
    return Relation(node.schema, answers, reached(node.schema, node.progress, answers))


def _running(node: GroupAggregate, given: Relation) -> Relation:
    """What a running answer has come to when all tuples are there; none of them is late."""
    groups = grouper(node.keys, node.aggregates, given.schema, node.key_order)
    if node.time is None:
        return Relation(node.schema, [Row(each) for each in groups((row, 0) for row in given.rows)])
    domain, position = Domain(node.time.type), evaluator(node.time, given.schema)
    placed = ((row, domain.tick(position(row.values))) for row in given.rows)
    return Relation(node.schema, [Row(answer) for answer in groups(placed)])


def distinct(node: Distinct, given: Relation, run: Run) -> Relation:
    expressions: list[Expression] = [Column.of(each.field) for each in node.progress]
    rows = in_time(given, expressions, run)
    if node.signed:
        return distinct_items(node, given, rows)
    seen: dict[Any, Row] = {}
    for row in rows:
        seen.setdefault(tuple(map(canonical, row.values)), Row(tuple(map(shown, row.values))))
    return Relation(node.schema, list(seen.values()), given.high)


def in_time(given: Relation, expressions: list[Expression], run: Run) -> list[Row]:
    """The rows that are not below the bound of any of the expressions; the others are late as a
    whole, and kept only if results can be amended so far behind the bound."""
    tests = [
        (_bound_broken(expression, given.schema), run.late_at(given.schema, expression.type))
        for expression in expressions
    ]
    kept = []
    for row in given.rows:
        broken = [(late, found) for test, late in tests if (found := test(row, run)) is not None]
        amended = all(found.amended for _, found in broken)
        if broken:
            late, found = broken[0]
            late.tuples.append(LateTuple(row.values, found.bound, None, amended))
        if amended:
            kept.append(row)
    return kept


class BrokenBound(NamedTuple):
    bound: Any
    amended: bool


def _bound_broken(
    expression: Expression, schema: Schema
) -> Callable[[Row, Run], BrokenBound | None]:
    """The bound that a row is below, or None."""
    domain = Domain(expression.type)
    value, bound = evaluator(expression, schema), bound_evaluator(expression)

    def test(row: Row, run: Run) -> BrokenBound | None:
        limit = bound(row.bounds)
        if limit == BEGINNING:
            return None
        found, ticks = domain.tick(value(row.values)), domain.tick(limit)
        return BrokenBound(limit, found >= run.gone(ticks, domain)) if found < ticks else None

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
