"""Generalised difference: when each left tuple is in its window and no right tuple matches it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from penstock.model.domain import Domain
from penstock.model.punctuation import END, Bound
from penstock.plan.joins import Difference
from penstock.reference.group_aggregate import in_time, reached
from penstock.reference.relation import Relation, Row
from penstock.reference.run import Run
from penstock.scalars.ordering import canonical


def difference(node: Difference, left: Relation, right: Relation, run: Run) -> Relation:
    """A positive item when a left tuple enters the difference, a negative one when it leaves."""
    domain = Domain(node.attributes[0].type)
    blocked: dict[Hashable, list[tuple[int, Bound]]] = defaultdict(list)
    position = node.attributes[1].position(right.schema)
    for row in in_time(right, [node.attributes[1]], run):
        key = tuple(canonical(row.values[c.position(right.schema)]) for _, c in node.keys)
        blocked[key].append(_stay(domain.tick(row.values[position]), node.ranges[1]))
    items: list[tuple[Bound, int, int, Row]] = []
    position = node.attributes[0].position(left.schema)
    for number, row in enumerate(in_time(left, [node.attributes[0]], run)):
        key = tuple(canonical(row.values[c.position(left.schema)]) for c, _ in node.keys)
        stay = _stay(domain.tick(row.values[position]), node.ranges[0])
        for enters, leaves in remaining(stay, blocked[key]):
            items.append((enters, number, 1, row))
            if leaves != END:
                items.append((leaves, number, -1, row))
    items.sort(key=lambda item: item[:3])
    rows = [
        Row((*row.values, domain.value(int(at))), sign=sign, lineage=(node.alias, number))
        for at, number, sign, row in items
    ]
    return Relation(node.schema, rows, reached(node.schema, node.progress, rows))


def _stay(tick: int, length: int | None) -> tuple[int, Bound]:
    """From when until before when a tuple is in its window; its age may reach the whole length."""
    return (tick, END if length is None else tick + length + 1)


def remaining(
    stay: tuple[int, Bound], blocked: list[tuple[int, Bound]]
) -> list[tuple[Bound, Bound]]:
    """The parts of a half-open interval that none of the others covers.

    >>> remaining((0, 10), [(2, 4), (3, 6)])
    [(0, 2), (6, 10)]
    """
    free: list[tuple[Bound, Bound]] = []
    at: Bound = stay[0]
    for start, end in sorted(blocked):
        if end <= at:
            continue
        if start >= stay[1]:
            break
        if start > at:
            free.append((at, start))
        at = end
    if at < stay[1]:
        free.append((at, stay[1]))
    return free
