"""Sessions of every group, in the order in which they close."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from typing import Any

from penstock.model.schema import Schema
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.reference.relation import Row
from penstock.scalars.evaluate import evaluator
from penstock.scalars.ordering import canonical, shown, sort_key
from penstock.windows.session import Session
from penstock.windows.window import WindowItem


def in_sessions(
    window: Session, rows: list[tuple[Row, int]], node: WindowAggregate, schema: Schema
) -> Iterator[tuple[int, int, list[tuple[Row, int]]]]:
    """The start, the end and the rows of every session; rows come with their ticks.  The first to
    end comes first, and of several the one whose keys do."""
    keys = [evaluator(key.expression, schema) for key in node.keys]
    groups: dict[tuple[Hashable, ...], list[tuple[Row, int]]] = defaultdict(list)
    for row, tick in rows:
        groups[tuple(canonical(key(row.values)) for key in keys)].append((row, tick))
    found: list[tuple[int, list[Any], int, list[tuple[Row, int]]]] = []
    for members in groups.values():
        first = [shown(key(members[0][0].values)) for key in keys]
        order = [sort_key(first[place]) for place in node.key_order]
        stream = [WindowItem(tick) for _, tick in members]
        for extent in window.sessions(stream).values():
            ticks = [stream[t].value for t in extent]
            end = window.end(min(ticks), max(ticks))
            found.append((end, order, min(ticks), [members[t] for t in extent]))
    for end, _, start, extent_rows in sorted(found, key=lambda each: each[:2]):
        yield start, end, extent_rows
