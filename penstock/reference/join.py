"""Join: all combinations whose times fit pairwise and for which the condition is true."""

from __future__ import annotations

from itertools import product

from penstock.model.domain import Domain
from penstock.plan.joins import Join
from penstock.reference.group_aggregate import in_time
from penstock.reference.relation import Relation, Row
from penstock.reference.run import Run
from penstock.scalars.evaluate import evaluator


def join(node: Join, given: list[Relation], run: Run) -> Relation:
    timed = []
    for relation, attribute in zip(given, node.attributes, strict=True):
        domain = Domain(attribute.type)
        position = attribute.position(relation.schema)
        rows = in_time(relation, [attribute], run)
        timed.append([(row, domain.tick(row.values[position])) for row in rows])
    holds = evaluator(node.condition, node.schema) if node.condition is not None else None
    joined = []
    for combination in product(*timed):
        if not _close_enough(node, [tick for _, tick in combination]):
            continue
        values = tuple(value for row, _ in combination for value in row.values)
        if holds is None or holds(values) is True:
            lineage = tuple(part for row, _ in combination for part in row.lineage)
            joined.append(Row(values, lineage=lineage))
    high = {key: value for relation in given for key, value in relation.high.items()}
    return Relation(node.schema, joined, high)


def _close_enough(node: Join, ticks: list[int]) -> bool:
    for j in range(1, len(ticks)):
        for i in range(j):
            window = node.window.between(i, j)
            if window is not None and not window.matches(ticks[i], ticks[j]):
                return False
    return True
