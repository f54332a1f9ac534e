"""Sequences: every second tuple with the first tuple that it follows."""

from __future__ import annotations

from penstock.model.domain import Domain
from penstock.plan.joins import Sequence, SequenceMode
from penstock.reference.group_aggregate import in_time
from penstock.reference.relation import Relation, Row
from penstock.reference.run import Run
from penstock.scalars.evaluate import evaluator
from penstock.scalars.ordering import sort_key


def sequence(node: Sequence, first: Relation, second: Relation, run: Run) -> Relation:
    """Both sides in the order of time, equal times in the order of their columns from left to
    right, so that arrival makes no difference.  RECENT takes the latest first tuple at or before
    the second, of equal ones the greatest; CHRONICLE the earliest that is still unused, of equal
    ones the least.  Tuples without a partner come with NULLs, where they are asked for."""
    domain = Domain(node.attributes[0].type)
    firsts = _in_order(first, node.attributes[0].position(first.schema), domain, node, 0, run)
    seconds = _in_order(second, node.attributes[1].position(second.schema), domain, node, 1, run)
    holds = evaluator(node.condition, node.schema) if node.condition is not None else None
    used: set[int] = set()
    paired: set[int] = set()
    pairs = []
    for at, row in seconds:
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
                pairs.append(Row(alone, lineage=row.lineage))
            continue
        if node.mode is SequenceMode.RECENT:
            chosen = candidates[-1]
        else:
            chosen = candidates[0]
            used.add(chosen)
        paired.add(chosen)
        other = firsts[chosen][1]
        pairs.append(Row((*other.values, *row.values), lineage=(*other.lineage, *row.lineage)))
    if node.keeps[0]:
        pairs += [
            Row((*row.values, *[None] * len(second.schema)), lineage=row.lineage)
            for number, (_, row) in enumerate(firsts)
            if number not in paired
        ]
    return Relation(node.schema, pairs, {**first.high, **second.high})


def _in_order(
    given: Relation, position: int, domain: Domain, node: Sequence, side: int, run: Run
) -> list[tuple[int, Row]]:
    rows = in_time(given, [node.attributes[side]], run)
    timed = [(domain.tick(row.values[position]), row) for row in rows]
    return sorted(timed, key=lambda each: (each[0], [sort_key(v) for v in each[1].values]))
