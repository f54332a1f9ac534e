"""Rows of an extent to rows of an answer: group them, then aggregate each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from penstock.model.schema import Schema
from penstock.plan.aggregates import NamedAggregate
from penstock.plan.expressions import Named
from penstock.reference.aggregate_functions import Input, aggregate, canonical, sort_key
from penstock.reference.evaluate import evaluator
from penstock.reference.relation import Row

Groups = Callable[[Iterable[tuple[Row, int]]], list[tuple[Any, ...]]]


def grouper(keys: tuple[Named, ...], calls: tuple[NamedAggregate, ...], schema: Schema) -> Groups:
    """A function from the rows of an extent, each with its position, to (keys…, aggregates…)."""
    key_of = [evaluator(key.expression, schema) for key in keys]
    arguments = [
        (
            each.call,
            [evaluator(argument, schema) for argument in each.call.arguments],
            evaluator(each.call.where, schema) if each.call.where is not None else None,
        )
        for each in calls
    ]

    def groups(extent: Iterable[tuple[Row, int]]) -> list[tuple[Any, ...]]:
        members: dict[tuple[Hashable, ...], list[tuple[Row, int]]] = defaultdict(list)
        shown: dict[tuple[Hashable, ...], tuple[Any, ...]] = {}
        for row, position in net(extent):
            values = tuple(evaluate(row.values) for evaluate in key_of)
            group = tuple(map(canonical, values))
            members[group].append((row, position))
            shown.setdefault(group, tuple(map(_without_sign_of_zero, values)))
        answers = []
        for group in sorted(members, key=lambda group: [sort_key(v) for v in shown[group]]):
            computed = []
            for call, evaluators, where in arguments:
                inputs = [
                    Input(tuple(evaluate(row.values) for evaluate in evaluators), position)
                    for row, position in members[group]
                    if where is None or where(row.values) is True
                ]
                computed.append(aggregate(call, inputs))
            answers.append((*shown[group], *computed))
        return answers

    return groups


def _without_sign_of_zero(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0.0 else value


def net(extent: Iterable[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """The items that are there and have not been taken back within the extent."""
    rows = list(extent)
    if all(row.sign > 0 for row, _ in rows):
        return rows
    balance: dict[Hashable, int] = defaultdict(int)
    for row, _ in rows:
        balance[row.lineage] += row.sign
    kept = []
    for row, position in rows:
        if row.sign > 0 and balance[row.lineage] > 0:
            balance[row.lineage] -= 1
            kept.append((row, position))
    return kept
