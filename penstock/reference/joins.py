"""Joins by definition: all combinations whose times fit pairwise and for which the condition is
true, and tuples without a partner where the kind of join keeps them; differences and sequences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import TypeAlias

from penstock.expressions.evaluation import Evaluator, evaluator
from penstock.model.ordering import canonical, exact_key
from penstock.model.punctuation import END, Bound
from penstock.model.ticks import Domain
from penstock.plan.nodes.join import (
    Difference,
    Join,
    JoinKind,
    Lookup,
    RunningJoin,
    SequenceMode,
    by_risk,
)
from penstock.plan.nodes.join import Sequence as SequenceNode
from penstock.reference.groups import in_time, reached
from penstock.reference.relation import Presence, Relation, Row, Run, presences


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
        # predicates that may fail come last: a pair that another one excludes must not fail
        if _all_hold(safe, values) and _also(node, values) and _all_hold(risky, values):
            combinations.append(rows)
    if node.kind is JoinKind.INNER:
        joined = [_combined(rows) for rows in combinations]
    else:
        left, right = ([row for row, _ in each] for each in timed)
        widths = (len(given[0].schema), len(given[1].schema))
        joined = _of_kind(node.kind, left, right, combinations, widths)
    high = {key: value for relation in given for key, value in relation.high.items()}
    # results come when they are complete, so they are never late
    return Relation(node.schema, [replace(row, bounds={}) for row in joined], high)


def running_join(node: RunningJoin, left: Relation, right: Relation) -> Relation:
    """Final state of a running join, after all tuples."""
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
    """Rows of a join of two inputs of a kind, from all its pairs."""
    partners: dict[int, list[Row]] = {id(row): [] for row in left}
    for one, other in pairs:
        partners[id(one)].append(other)
    joined = []
    for row in left:
        found = partners[id(row)]
        if kind.left_alone:
            joined += [row] if bool(found) is (kind is JoinKind.SEMI) else []
        elif found:
            joined += [_combined((row, other)) for other in found]
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


def _combined(rows: Sequence[Row]) -> Row:
    """Combine rows: the product of their signs, and the bounds of the first."""
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


# Generalised difference: the times in which a left tuple is in its window and no right tuple
# matches it.

_Stay: TypeAlias = tuple[int, Bound]


def difference(node: Difference, left: Relation, right: Relation, run: Run) -> Relation:
    """Emit a positive item when a left tuple enters the difference, a negative one when it
    leaves."""
    domain = Domain(node.attributes[0].type)
    blocked: dict[Hashable, list[_Stay]] = defaultdict(list)
    for key, _, stay in _lifetimes(node, 1, right, run):
        blocked[key].append(stay)
    items: list[tuple[Bound, int, int, Row]] = []
    for key, presence, stay in _lifetimes(node, 0, left, run):
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


def _lifetimes(
    node: Difference, side: int, given: Relation, run: Run
) -> Iterator[tuple[Hashable, Presence, _Stay]]:
    """Tuples of an input with their keys, and the interval in which each is in its window: its age
    may reach the whole length, but it leaves when it is retracted."""
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
    """Parts of a half-open interval that none of the others covers.

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


# Sequences: every second tuple with the first tuple that it follows.


def sequence(node: SequenceNode, first: Relation, second: Relation, run: Run) -> Relation:
    """Both sides in the order of time, equal times in the order of their columns from left to
    right, so that arrival makes no difference.  RECENT takes the latest first tuple at or before
    the second, of equal ones the greatest; CHRONICLE the earliest that is still unused, of equal
    ones the least.  Tuples without a partner come with NULLs, where they are asked for: a second
    one at its time, a first one when WITHIN has passed."""
    domain = Domain(node.attributes[0].type)
    firsts = _in_order(first, node.attributes[0].position(first.schema), domain, node, 0, run)
    seconds = _in_order(second, node.attributes[1].position(second.schema), domain, node, 1, run)
    holds = evaluator(node.condition, node.schema) if node.condition is not None else None
    used: set[int] = set()
    paired: set[int] = set()
    rows: list[tuple[tuple[int, bool, int], Row]] = []  # with the order in which they are known
    for place, (at, row) in enumerate(seconds):
        known = (at, True, place)
        candidates = [
            number
            for number, (since, other) in enumerate(firsts)
            if since <= at
            and (node.within is None or at - since <= node.within)
            and number not in used
            and (holds is None or holds((*other.values, *row.values)) is True)
        ]
        if not candidates:
            if node.keeps[1]:
                alone = (*[None] * len(first.schema), *row.values)
                rows.append((known, Row(alone, lineage=row.lineage)))
            continue
        if node.mode is SequenceMode.RECENT:
            chosen = candidates[-1]
        else:
            chosen = candidates[0]
            used.add(chosen)
        paired.add(chosen)
        other = firsts[chosen][1]
        pair = Row((*other.values, *row.values), lineage=(*other.lineage, *row.lineage))
        rows.append((known, pair))
    if node.keeps[0]:
        assert node.within is not None
        for number, (since, row) in enumerate(firsts):
            if number not in paired:
                alone = (*row.values, *[None] * len(second.schema))
                known = (since + node.within + 1, False, number)
                rows.append((known, Row(alone, lineage=row.lineage)))
    rows.sort(key=lambda each: each[0])
    return Relation(node.schema, [row for _, row in rows], {**first.high, **second.high})


def _in_order(
    given: Relation, position: int, domain: Domain, node: SequenceNode, side: int, run: Run
) -> list[tuple[int, Row]]:
    rows = in_time(given, [node.attributes[side]], run)
    timed = [(domain.tick(row.values[position]), row) for row in rows]
    return sorted(timed, key=lambda each: (each[0], [exact_key(v) for v in each[1].values]))
