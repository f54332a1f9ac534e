"""Groups by definition: aggregation by key, DISTINCT, and DISTINCT ON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from penstock.expressions.evaluation import evaluator
from penstock.model.ordering import canonical, exact_key, shown, sort_key
from penstock.model.punctuation import BEGINNING, END
from penstock.model.ticks import Domain
from penstock.model.types import BIGINT, Schema
from penstock.plan.expressions import Column, Expression, Named
from penstock.plan.nodes.aggregation import Distinct, DistinctOn, GroupAggregate, NamedAggregate
from penstock.reference.aggregates import Input, aggregate
from penstock.reference.relation import (
    LateTuple,
    Relation,
    Row,
    Run,
    bound_evaluator,
    field_key,
    matched,
    presences,
    tick_bound,
)

Groups = Callable[[Iterable[tuple[Row, int]]], list[tuple[Any, ...]]]


def grouper(
    keys: tuple[Named, ...],
    calls: tuple[NamedAggregate, ...],
    schema: Schema,
    key_order: tuple[int, ...],
) -> Groups:
    """Make a function from the rows of an extent, each with its position, to (keys…, aggregates…),
    in the order of the keys, of which the first in `key_order` counts first."""
    key_of = [evaluator(key.expression, schema) for key in keys]
    arguments = [
        (
            each.call,
            [evaluator(argument, schema) for argument in each.call.arguments],
            evaluator(each.call.where, schema) if each.call.where is not None else None,
        )
        for each in calls
    ]

    def groups(extent: Iterable[tuple[Row, int]]) -> list[tuple[Any, ...]]:
        members: dict[tuple[Hashable, ...], list[tuple[Row, int]]] = defaultdict(list)
        first: dict[tuple[Hashable, ...], tuple[Any, ...]] = {}
        for row, position in extent:
            values = tuple(evaluate(row.values) for evaluate in key_of)
            group = tuple(map(canonical, values))
            members[group].append((row, position))
            first.setdefault(group, tuple(map(shown, values)))
        answers = []
        for group in sorted(
            members, key=lambda group: [sort_key(first[group][place]) for place in key_order]
        ):
            present = net(members[group])
            if not present:
                continue
            computed = []
            for call, evaluators, where in arguments:
                inputs = [
                    Input(tuple(evaluate(row.values) for evaluate in evaluators), position)
                    for row, position in present
                    if where is None or where(row.values) is True
                ]
                computed.append(aggregate(call, inputs))
            answers.append((*first[group], *computed))
        return answers

    return groups


def net(items: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """Items that have not been retracted."""
    left = sorted(number for number, taken_back in matched(items) if taken_back is None)
    return [items[number] for number in left]


# DISTINCT over signed items: a row is in the result while at least one tuple with its values is in
# the input.


def distinct_items(node: Distinct, given: Relation, rows: list[Row]) -> Relation:
    """Emit a positive item when the first tuple with some values comes, a negative one when the
    last of them has gone. One that leaves as another comes makes no difference."""
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


# Aggregation by key, and distinct: groups that are complete once a progressing key is passed.


def group_aggregate(node: GroupAggregate, given: Relation, run: Run) -> Relation:
    if node.runs:
        return _running(node, given)
    rows = in_time(given, list(node.completing), run)
    groups = grouper(node.keys, node.aggregates, given.schema, node.key_order)
    domain = Domain(node.position.type)
    position = evaluator(node.position, given.schema)
    placed = ((row, domain.tick(position(row.values))) for row in rows)
    answers = [Row(answer) for answer in groups(placed)]
    if node.progress:  # they leave by the first key that completes them, then by all keys
        first = node.schema.names.index(node.progress[0].field.name)
        answers.sort(key=lambda row: sort_key(row.values[first]))
    return Relation(node.schema, answers, reached(node.schema, node.progress, answers))


def _running(node: GroupAggregate, given: Relation) -> Relation:
    """Final state of a running answer, after all tuples; none of them is late."""
    groups = grouper(node.keys, node.aggregates, given.schema, node.key_order)
    if node.time is None:
        return Relation(node.schema, [Row(each) for each in groups((row, 0) for row in given.rows)])
    domain, position = Domain(node.time.type), evaluator(node.time, given.schema)
    placed = ((row, domain.tick(position(row.values))) for row in given.rows)
    return Relation(node.schema, [Row(answer) for answer in groups(placed)])


def distinct(node: Distinct, given: Relation, run: Run) -> Relation:
    expressions: list[Expression] = [Column.of(each.field) for each in node.progress]
    rows = in_time(given, expressions, run)
    if node.signed:
        return distinct_items(node, given, rows)
    seen: dict[Any, Row] = {}
    for row in rows:
        seen.setdefault(tuple(map(canonical, row.values)), Row(tuple(map(shown, row.values))))
    return Relation(node.schema, list(seen.values()), given.high)


def in_time(given: Relation, expressions: list[Expression], run: Run) -> list[Row]:
    """Rows that are not below the bound of any of the expressions; the others are late as a whole,
    and kept only if results can be amended so far behind the bound."""
    tests = [
        (_bound_broken(expression, given.schema), run.late_at(given.schema, expression.type))
        for expression in expressions
    ]
    kept = []
    for row in given.rows:
        broken = [(late, found) for test, late in tests if (found := test(row, run)) is not None]
        amended = all(found.amended for _, found in broken)
        if broken:
            late, found = broken[0]
            late.tuples.append(LateTuple(row.values, found.bound, None, amended))
        if amended:
            kept.append(row)
    return kept


class BrokenBound(NamedTuple):
    """A group that was emitted before one of its tuples came: the bound that said so, and
    whether the answer was amended."""

    bound: Any
    amended: bool


def _bound_broken(
    expression: Expression, schema: Schema
) -> Callable[[Row, Run], BrokenBound | None]:
    """Bound that a row is below, or None."""
    domain = Domain(expression.type)
    value, bound = evaluator(expression, schema), bound_evaluator(expression)

    def test(row: Row, run: Run) -> BrokenBound | None:
        limit = bound(row.bounds)
        if limit == BEGINNING:
            return None
        found, ticks = domain.tick(value(row.values)), domain.tick(limit)
        return BrokenBound(limit, found >= run.gone(ticks, domain)) if found < ticks else None

    return test


def reached(schema: Schema, progress: Any, answers: list[Row]) -> dict[Any, Any]:
    """Highest values of the progressing columns of an answer."""
    if not answers:
        return {}
    return {
        field_key(each.field): max(
            row.values[schema.index(each.field.name, each.field.relation)] for row in answers
        )
        for each in progress
    }


# DISTINCT ON: of every key in a window one row, the first or the last by time.


def distinct_on(node: DistinctOn, given: Relation, run: Run) -> Relation:
    """Rows of DISTINCT ON. A tuple is late for the windows that the bound before it had closed, as
    in an aggregate."""
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
