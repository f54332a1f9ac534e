"""Stamp, filter, project and union: one tuple at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.model.clock import SteadyClock
from penstock.model.domain import Domain
from penstock.model.progress import Ordered, RunningBound
from penstock.model.punctuation import BEGINNING
from penstock.model.types import Kind
from penstock.plan.nodes.stateless import Filter, Project, Stamp, Union
from penstock.plan.nodes.unnest import Unnest
from penstock.reference.relation import (
    Bounds,
    Relation,
    Row,
    bound_evaluator,
    carried,
    field_key,
    reach_evaluator,
)
from penstock.reference.run import Run
from penstock.scalars.evaluate import evaluator
from penstock.scalars.growth import row_sizes


def stamp(node: Stamp, given: Relation, run: Run) -> Relation:
    position = node.column.position(given.schema)
    key = field_key(node.column)
    running = RunningBound(Ordered())
    domain = Domain(node.column.type)
    clock = SteadyClock(run.clock)
    rows = []
    for row in given.rows:
        now = clock.now()
        before = running.observe(now)
        bounds: Bounds = dict(row.bounds)
        if before != BEGINNING:
            bounds[key] = domain.value(int(before))
        values = (*row.values[:position], now, *row.values[position + 1 :])
        rows.append(replace(row, values=values, bounds=bounds))
    high = {**given.high, key: int(running.highest)} if rows else given.high
    return Relation(node.schema, rows, high)


def filter_(node: Filter, given: Relation) -> Relation:
    holds = evaluator(node.predicate, given.schema)
    rows = [row for row in given.rows if holds(row.values) is True]
    return Relation(node.schema, rows, given.high)


def project(node: Project, given: Relation) -> Relation:
    columns = [evaluator(column.expression, given.schema) for column in node.columns]
    check = row_sizes([column.expression for column in node.columns])
    by_name = {column.name: column.expression for column in node.columns}
    bounds = [
        (field_key(progressing.field), bound_evaluator(by_name[progressing.field.name]))
        for progressing in node.progress
    ]
    reached = [
        (field_key(progressing.field), reach_evaluator(by_name[progressing.field.name]))
        for progressing in node.progress
    ]
    rows = [
        replace(
            row,
            values=tuple(column(row.values) for column in columns),
            bounds=carried(row.bounds, bounds),
        )
        for row in given.rows
    ]
    if check is not None:
        for row in rows:
            check(row.values)
    return Relation(node.schema, rows, carried(given.high, reached))


def unnest(node: Unnest, given: Relation) -> Relation:
    collection = evaluator(node.expression, given.schema)
    nothing = (None,) * len(node.fields)
    rows = []
    for row in given.rows:
        items = collection(row.values) or ()
        made = [_item(node, each, number) for number, each in enumerate(items, start=1)]
        if not made and node.outer:
            made = [nothing]
        rows += [replace(row, values=(*row.values, *each)) for each in made]
    return Relation(node.schema, rows, given.high)


def _item(node: Unnest, item: Any, number: int) -> tuple[Any, ...]:
    several = node.spread or node.expression.type.kind is Kind.MAP
    width = len(node.fields) - node.numbered
    parts = (item if item is not None else (None,) * width) if several else (item,)
    if node.from_zero:
        return (number - 1, *parts)
    return (*parts, number) if node.numbered else tuple(parts)


def union(node: Union, given: list[Relation]) -> Relation:
    rows: list[Row] = []
    high: Bounds = {}
    for number, relation in enumerate(given):
        names = {
            field_key(old): field_key(new)
            for old, new in zip(relation.schema, node.schema, strict=True)
        }
        for row in relation.rows:
            bounds = {names[key]: bound for key, bound in row.bounds.items() if key in names}
            # two branches may have it from the same tuple
            lineage = tuple((number, part) for part in row.lineage)
            rows.append(replace(row, bounds=bounds, lineage=lineage))
        for key, reached in relation.high.items():
            if key in names:
                high[names[key]] = max(reached, high.get(names[key], reached))
    return Relation(node.schema, rows, high)
