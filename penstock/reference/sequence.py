"""Sequences: every second tuple with the first tuple that it follows."""

from __future__ import annotations

from penstock.model.domain import Domain
from penstock.plan.nodes.sequence import Sequence, SequenceMode
from penstock.reference.group_aggregate import in_time
from penstock.reference.relation import Relation, Row
from penstock.reference.run import Run
from penstock.scalars.evaluate import evaluator
from penstock.scalars.ordering import exact_key


def sequence(node: Sequence, first: Relation, second: Relation, run: Run) -> Relation:
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
    given: Relation, position: int, domain: Domain, node: Sequence, side: int, run: Run
) -> list[tuple[int, Row]]:
    rows = in_time(given, [node.attributes[side]], run)
    timed = [(domain.tick(row.values[position]), row) for row in rows]
    return sorted(timed, key=lambda each: (each[0], [exact_key(v) for v in each[1].values]))
