"""Rows of an extent to rows of an answer: group them, then aggregate each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from penstock.model.schema import Schema
from penstock.plan.expressions import Named
from penstock.plan.nodes.aggregates import NamedAggregate
from penstock.reference.aggregate_functions import Input, aggregate
from penstock.reference.presence import matched
from penstock.reference.relation import Row
from penstock.scalars.evaluate import evaluator
from penstock.scalars.ordering import canonical, shown, sort_key

Groups = Callable[[Iterable[tuple[Row, int]]], list[tuple[Any, ...]]]


def grouper(
    keys: tuple[Named, ...],
    calls: tuple[NamedAggregate, ...],
    schema: Schema,
    key_order: tuple[int, ...],
) -> Groups:
    """A function from the rows of an extent, each with its position, to (keys…, aggregates…), in
    the order of the keys, of which the first in `key_order` counts first."""
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
        first: dict[tuple[Hashable, ...], tuple[Any, ...]] = {}
        for row, position in extent:
            values = tuple(evaluate(row.values) for evaluate in key_of)
            group = tuple(map(canonical, values))
            members[group].append((row, position))
            first.setdefault(group, tuple(map(shown, values)))
        answers = []
        for group in sorted(
            members, key=lambda group: [sort_key(first[group][place]) for place in key_order]
        ):
            present = net(members[group])
            if not present:
                continue
            computed = []
            for call, evaluators, where in arguments:
                inputs = [
                    Input(tuple(evaluate(row.values) for evaluate in evaluators), position)
                    for row, position in present
                    if where is None or where(row.values) is True
                ]
                computed.append(aggregate(call, inputs))
            answers.append((*first[group], *computed))
        return answers

    return groups


def net(items: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """The items that are there and have not been taken back among these."""
    left = sorted(number for number, taken_back in matched(items) if taken_back is None)
    return [items[number] for number in left]
