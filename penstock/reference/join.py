"""Joins: all combinations whose times fit pairwise and for which the condition is true, and tuples
without a partner where they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from penstock.model.domain import Domain
from penstock.plan.nodes.joins import Join, JoinKind, by_risk
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.running_join import RunningJoin
from penstock.reference.group_aggregate import in_time
from penstock.reference.relation import Relation, Row
from penstock.reference.run import Run
from penstock.scalars.evaluate import Evaluator, evaluator


def join(node: Join, given: list[Relation], run: Run) -> Relation:
    timed = []
    inputs = zip(node.branches, given, node.attributes, node.times, strict=True)
    for branch, relation, attribute, times in inputs:
        domain = Domain(attribute.type)
        position = attribute.position(relation.schema)
        rows = in_time(relation, list(times), run)
        if not branch.signed:  # results of others are told apart, too
            rows = [replace(row, lineage=((number,),)) for number, row in enumerate(rows)]
        timed.append([(row, domain.tick(row.values[position])) for row in rows])
    safe, risky = (
        [evaluator(c, node.pair_schema) for c in some] for some in by_risk(node.condition)
    )
    combinations = []
    for combination in product(*timed):
        if not _close_enough(node, [tick for _, tick in combination]):
            continue
        rows = [row for row, _ in combination]
        values = tuple(value for row in rows for value in row.values)
        # whatever may fail comes last, so that nobody fails who need not be looked at
        if _all_hold(safe, values) and _also(node, values) and _all_hold(risky, values):
            combinations.append(rows)
    if node.kind is JoinKind.INNER:
        joined = [_together(rows) for rows in combinations]
    else:
        left, right = ([row for row, _ in each] for each in timed)
        widths = (len(given[0].schema), len(given[1].schema))
        joined = _of_kind(node.kind, left, right, combinations, widths)
    high = {key: value for relation in given for key, value in relation.high.items()}
    # results come when they are complete, so they are never late
    return Relation(node.schema, [replace(row, bounds={}) for row in joined], high)


def running_join(node: RunningJoin, left: Relation, right: Relation) -> Relation:
    """What a running join has come to when all tuples are there."""
    safe, risky = (
        [evaluator(c, node.pair_schema) for c in some] for some in by_risk(node.condition)
    )
    pairs = []
    for row, other in product(left.rows, right.rows):
        values = (*row.values, *other.values)
        if _all_hold(safe, values) and _all_hold(risky, values):
            pairs.append((row, other))
    widths = (len(left.schema), len(right.schema))
    joined = _of_kind(node.kind, left.rows, right.rows, pairs, widths)
    return Relation(node.schema, [Row(row.values) for row in joined])


def lookup(node: Lookup, given: Relation, table: Relation) -> Relation:
    holds = evaluator(node.condition, node.pair_schema) if node.condition is not None else None
    pairs = [
        (row, other)
        for row in given.rows
        for other in table.rows
        if holds is None or holds((*row.values, *other.values)) is True
    ]
    widths = (len(given.schema), len(table.schema))
    return Relation(node.schema, _of_kind(node.kind, given.rows, [], pairs, widths), given.high)


def _of_kind(
    kind: JoinKind,
    left: list[Row],
    right: list[Row],
    pairs: Sequence[Sequence[Row]],
    widths: tuple[int, int],
) -> list[Row]:
    """What a join of two inputs gives once all pairs are known."""
    partners: dict[int, list[Row]] = {id(row): [] for row in left}
    for one, other in pairs:
        partners[id(one)].append(other)
    joined = []
    for row in left:
        found = partners[id(row)]
        if kind.left_alone:
            joined += [row] if bool(found) is (kind is JoinKind.SEMI) else []
        elif found:
            joined += [_together((row, other)) for other in found]
        elif kind.keeps[0]:
            joined.append(replace(row, values=(*row.values, *[None] * widths[1])))
    if kind.keeps[1]:
        paired = {id(other) for _, other in pairs}
        joined += [
            replace(row, values=(*[None] * widths[0], *row.values))
            for row in right
            if id(row) not in paired
        ]
    return joined


def _together(rows: Sequence[Row]) -> Row:
    """One row of several, with the sign that they have together and the bounds of the first."""
    values = tuple(value for row in rows for value in row.values)
    lineage = tuple(part for row in rows for part in row.lineage)
    turns = tuple(turn for row in rows for turn in row.turns)
    return Row(values, rows[0].bounds, prod(row.sign for row in rows), lineage, turns)


def _all_hold(conditions: list[Evaluator], values: tuple[object, ...]) -> bool:
    found = [holds(values) is True for holds in conditions]  # all of them: each may fail
    return all(found)


def _close_enough(node: Join, ticks: list[int]) -> bool:
    for j in range(1, len(ticks)):
        for i in range(j):
            window = node.window.between(i, j)
            if window is not None and not window.matches(ticks[i], ticks[j]):
                return False
    return True


def _also(node: Join, values: tuple[object, ...]) -> bool:
    """Whether the other times fit, of inputs that have several."""
    for each in node.also:
        domain = Domain(each.left.type)
        left, right = (values[c.position(node.pair_schema)] for c in (each.left, each.right))
        if not each.window.matches(domain.tick(left), domain.tick(right)):
            return False
    return True
