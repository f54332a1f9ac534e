"""DISTINCT over signed items: a row is there while at least one tuple with its values is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable

from penstock.model.domain import Domain
from penstock.model.punctuation import END
from penstock.plan.nodes.aggregates import Distinct
from penstock.reference.presence import presences
from penstock.reference.relation import Relation, Row
from penstock.scalars.ordering import canonical, exact_key, shown


def distinct_items(node: Distinct, given: Relation, rows: list[Row]) -> Relation:
    """A positive item when the first tuple with some values comes, a negative one when the last of
    them has gone.  One that leaves as another comes makes no difference."""
    domain = Domain(node.schema.fields[node.when].type)
    groups: dict[tuple[Hashable, ...], list[tuple[Row, int]]] = defaultdict(list)
    for row in rows:
        others = (*row.values[: node.when], *row.values[node.when + 1 :])
        groups[tuple(map(canonical, others))].append((row, domain.tick(row.values[node.when])))
    made = []
    for values, items in groups.items():
        changes: Counter[int] = Counter()
        for each in presences(items):
            changes[each.since] += 1
            if each.until != END:
                changes[int(each.until)] -= 1
        present, since = 0, 0
        for tick in sorted(changes):
            before, present = present, present + changes[tick]
            if (before > 0) is not (present > 0):
                since = tick if present else since
                shown_values = list(map(shown, items[0][0].values))
                shown_values[node.when] = domain.value(tick)
                sign = 1 if present else -1
                made.append((tick, Row(tuple(shown_values), {}, sign, ((values, since),), (tick,))))
    made.sort(key=lambda each: (each[0], [exact_key(value) for value in each[1].values]))
    return Relation(node.schema, [row for _, row in made], given.high)
