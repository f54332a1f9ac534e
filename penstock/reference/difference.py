"""Generalised difference: when each left tuple is in its window and no right tuple matches it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from typing import TypeAlias

from penstock.model.domain import Domain
from penstock.model.punctuation import END, Bound
from penstock.plan.nodes.difference import Difference
from penstock.reference.group_aggregate import in_time, reached
from penstock.reference.presence import Presence, presences
from penstock.reference.relation import Relation, Row
from penstock.reference.run import Run
from penstock.scalars.ordering import canonical

_Stay: TypeAlias = tuple[int, Bound]


def difference(node: Difference, left: Relation, right: Relation, run: Run) -> Relation:
    """A positive item when a left tuple enters the difference, a negative one when it leaves."""
    domain = Domain(node.attributes[0].type)
    blocked: dict[Hashable, list[_Stay]] = defaultdict(list)
    for key, _, stay in _stays(node, 1, right, run):
        blocked[key].append(stay)
    items: list[tuple[Bound, int, int, Row]] = []
    for key, presence, stay in _stays(node, 0, left, run):
        for enters, leaves in remaining(stay, blocked[key]):
            items.append((enters, presence.number, 1, presence.row))
            if leaves != END:
                items.append((leaves, presence.number, -1, presence.row))
    items.sort(key=lambda item: item[:3])
    rows = []
    for at, number, sign, row in items:
        values = (*row.values, domain.value(int(at)))
        rows.append(Row(values, {}, sign, ((node.alias, number),), (int(at),)))
    return Relation(node.schema, rows, reached(node.schema, node.progress, rows))


def _stays(
    node: Difference, side: int, given: Relation, run: Run
) -> Iterator[tuple[Hashable, Presence, _Stay]]:
    """The tuples of an input with their keys, and from when until before when each is in its
    window: its age may reach the whole length, but it leaves when a negative item takes it back."""
    attribute, length = node.attributes[side], node.ranges[side]
    domain, position = Domain(attribute.type), attribute.position(given.schema)
    keys = [pair[side].position(given.schema) for pair in node.keys]
    rows = in_time(given, [attribute], run)
    for each in presences([(row, domain.tick(row.values[position])) for row in rows]):
        until = each.until if length is None else min(each.until, each.since + length + 1)
        if each.since < until:
            key = tuple(canonical(each.row.values[place]) for place in keys)
            yield key, each, (each.since, until)


def remaining(stay: _Stay, blocked: list[_Stay]) -> list[tuple[Bound, Bound]]:
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
