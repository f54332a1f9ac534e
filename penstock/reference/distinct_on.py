"""DISTINCT ON: of every key in a window one row, the first or the last by time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Any

from penstock.model.domain import Domain
from penstock.model.types import BIGINT
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.reference.group_aggregate import reached
from penstock.reference.relation import Relation, Row, bound_evaluator, tick_bound
from penstock.reference.run import LateTuple, Run
from penstock.scalars.evaluate import evaluator
from penstock.scalars.ordering import canonical, shown, sort_key


def distinct_on(node: DistinctOn, given: Relation, run: Run) -> Relation:
    """A tuple is late for the windows that the bound before it had closed, as in an aggregate."""
    window, domain = node.window, Domain(node.attribute.type)
    late = run.late_at(given.schema, node.attribute.type, BIGINT)
    value, bound = evaluator(node.attribute, given.schema), bound_evaluator(node.attribute)
    keys = [evaluator(key, given.schema) for key in node.keys]
    columns = [evaluator(column, given.schema) for column in node.columns]
    extents: dict[int, dict[Hashable, list[tuple[int, Any, Any]]]] = defaultdict(dict)
    for row in given.rows:
        tick, before = domain.tick(value(row.values)), tick_bound(domain, bound(row.bounds))
        gone = run.gone(before, domain)
        wids = window.wids_of(tick)
        missed = [wid for wid in wids if window.closes_at(wid) <= before]
        counts = [wid for wid in wids if window.closes_at(wid) > gone]
        if missed:
            amended = len(counts) == len(wids)
            shown_bound = domain.value(int(before))
            late.tuples.append(LateTuple(row.values, shown_bound, (missed[0], missed[-1]), amended))
        own = [shown(key(row.values)) for key in keys]
        made = tuple(shown(column(row.values)) for column in columns)
        for wid in counts:
            group = extents[wid].setdefault(tuple(map(canonical, own)), [])
            group.append((tick, own, made))
    choose = max if node.last else min
    bounds = Domain(node.bound_type)
    answers = []
    for wid in sorted(extents):
        start, end = window.bounds(wid)
        groups = sorted(extents[wid].values(), key=lambda group: list(map(sort_key, group[0][1])))
        for group in groups:
            *_, made = choose(group, key=lambda each: (each[0], list(map(sort_key, each[2]))))
            answers.append(Row((wid, bounds.value(start), bounds.value(end), *made)))
    return Relation(node.schema, answers, reached(node.schema, node.progress, answers))
