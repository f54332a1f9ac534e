"""Nodes over tables alone: all rows in order, and rows that stand for none."""

from __future__ import annotations

from typing import Any

from penstock.plan.nodes.over_calls import OrderKey
from penstock.plan.nodes.tables import OrderedRows, OrElse
from penstock.reference.relation import Relation, Row
from penstock.scalars.evaluate import evaluator
from penstock.scalars.ordering import exact_key, sort_key


def ordered_rows(node: OrderedRows, given: Relation) -> Relation:
    """Sorted by the last key first: sorting is stable."""
    rows = given.rows
    for tie in reversed([each for each in node.ties if not each.type.is_nested]):
        value = evaluator(tie, given.schema)
        rows = sorted(rows, key=lambda row: exact_key(value(row.values)))
    for key in reversed(node.order):
        rows = _sorted(rows, key, given)
    return Relation(node.schema, rows)


def _sorted(rows: list[Row], key: OrderKey, given: Relation) -> list[Row]:
    value = evaluator(key.expression, given.schema)

    def known(row: Row) -> Any:
        return sort_key(value(row.values))

    nulls = [row for row in rows if value(row.values) is None]
    others = [row for row in rows if value(row.values) is not None]
    others.sort(key=known, reverse=key.descending)
    return [*nulls, *others] if key.nulls_first else [*others, *nulls]


def or_else(node: OrElse, given: Relation) -> Relation:
    if node.single and len(given.rows) > 1:
        raise node.several(len(given.rows))
    otherwise = [Row(tuple(each.value for each in row)) for row in node.otherwise]
    return Relation(node.schema, given.rows or otherwise)
