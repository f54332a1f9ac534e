"""Windows by definition: place every tuple in its windows, leave out late tuples, aggregate every
extent; sessions by group."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from penstock.errors import EngineError
from penstock.expressions.evaluation import evaluator
from penstock.model.ordering import canonical, shown, sort_key
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.ticks import Domain
from penstock.model.types import Schema, Type
from penstock.plan.nodes.aggregation import Window, WindowAggregate
from penstock.plan.window_kinds import (
    MOST_KEPT,
    MOST_REMEMBERED,
    Landmark,
    Order,
    RowWindow,
    Session,
    SlideByTuple,
    Sliding,
    WindowItem,
    per_tuple,
    too_many,
)
from penstock.reference.groups import grouper
from penstock.reference.relation import (
    LateTuple,
    LateTuples,
    Relation,
    Row,
    Run,
    bound_evaluator,
    reach_evaluator,
    tick_bound,
)


def in_sessions(
    window: Session, rows: list[tuple[Row, int]], node: WindowAggregate, schema: Schema
) -> Iterator[tuple[int, int, list[tuple[Row, int]]]]:
    """Start, end and rows of every session; rows come with their ticks. Sessions are ordered by
    end, then by keys."""
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


# Aggregation by window: lay the windows, leave out late tuples, fold every extent.


class Placed(NamedTuple):
    """A row, its tick, the bound before it, and the bound below which it does not count."""

    row: Row
    item: WindowItem
    bound: Bound
    gone: Bound


class Extent(NamedTuple):
    """A window that has a result, and its rows with their positions."""

    wid: int
    rows: list[tuple[Row, int]]
    end: int | None = None  # where the id alone does not say it


def window_aggregate(node: WindowAggregate, given: Relation, run: Run) -> Relation:
    late = run.late_at(given.schema, _late_type(node), node.schema.fields[0].type)
    placed = _place(node, given, run)
    if isinstance(node.window, Sliding | RowWindow) and per_tuple(node.window) > MOST_KEPT:
        raise EngineError(
            f"a tuple is in {per_tuple(node.window):,} windows, too many for the reference engine",
            span=node.span,
            expected=f"at most {MOST_KEPT:,}",
            hint="the local engine: --engine local, or connect('local')",
        )
    match node.window:
        case Sliding():
            extents = _sliding(node.window, placed, late)
        case Landmark():
            extents = _landmark(node, node.window, placed, given, late)
        case RowWindow():
            extents = _rows(node.window, placed, late)
        case SlideByTuple():
            extents = _slide_by_tuple(node.window, placed, late)
        case Session():
            extents = _sessions(node, node.window, placed, given, late)
    groups = grouper(node.keys, node.aggregates, given.schema, node.key_order)
    domain = Domain(node.bound_type)
    answers: list[Row] = []
    rows, folded = None, []
    for extent in extents:
        if extent.rows is not rows:  # windows in a row may hold the same tuples
            rows, folded = extent.rows, groups(extent.rows)
        start, end = _bounds(node.window, extent)
        by_value = isinstance(node.window, SlideByTuple | Session)
        shown_id = domain.value(extent.wid) if by_value else extent.wid
        shown = (shown_id, None if start is None else domain.value(start), domain.value(end))
        answers += [Row((*shown, *answer)) for answer in folded]
    return Relation(node.schema, answers, _reached(node, answers))


def _place(node: WindowAggregate, given: Relation, run: Run) -> list[Placed]:
    parts = [node.partition[place] for place in node.partition_order]
    partition = [evaluator(part.expression, given.schema) for part in parts]

    def item(row: Row, tick: int) -> WindowItem:
        return WindowItem(tick, tuple(canonical(evaluate(row.values)) for evaluate in partition))

    # what is late as a whole is of no partition
    by_rank = isinstance(node.window, Session) or (
        isinstance(node.window, RowWindow | SlideByTuple) and node.window.order is Order.RANK
    )
    if node.attribute is None:
        return [Placed(row, item(row, 0), BEGINNING, BEGINNING) for row in given.rows]
    domain = Domain(node.attribute.type)
    value, bound = evaluator(node.attribute, given.schema), bound_evaluator(node.attribute)
    placed = []
    for row in given.rows:
        before = tick_bound(domain, bound(row.bounds))
        tick = domain.tick(value(row.values))
        gone = run.gone(before, domain)
        own = WindowItem(tick) if by_rank and tick < gone else item(row, tick)
        placed.append(Placed(row, own, before, gone))
    return placed


def _sliding(window: Sliding, placed: list[Placed], late: LateTuples) -> Iterator[Extent]:
    extents: dict[int, list[tuple[Row, int]]] = defaultdict(list)
    for each in placed:
        wids = window.wids_of(each.item.value)
        missed = [wid for wid in wids if window.closes_at(wid) <= each.bound]
        counts = [wid for wid in wids if window.closes_at(wid) > each.gone]
        if missed:
            amended = len(counts) == len(wids)
            late.tuples.append(_late(late, each, (missed[0], missed[-1]), amended))
        for wid in counts:
            extents[wid].append((each.row, each.item.value))
    yield from (Extent(wid, extents[wid]) for wid in sorted(extents))


def _landmark(
    node: WindowAggregate,
    window: Landmark,
    placed: list[Placed],
    given: Relation,
    late: LateTuples,
) -> Iterator[Extent]:
    """Landmark windows, which continue up to the bound of the stream, whether or not tuples passed
    the filter."""
    if not placed:
        return
    assert node.attribute is not None
    reached = tick_bound(Domain(node.attribute.type), reach_evaluator(node.attribute)(given.high))
    high = int(max(reached, *(each.item.value for each in placed)))
    joins_at: dict[int, list[tuple[Row, int]]] = defaultdict(list)
    for each in placed:
        first = window.wids_of(each.item.value, high)[0]
        open_, joins = (_first_above(window, limit, first) for limit in (each.bound, each.gone))
        if open_ > first:
            late.tuples.append(_late(late, each, (first, open_ - 1), joins == first))
        joins_at[joins].append((each.row, each.item.value))
    last = (high - window.origin) // window.slide
    refuse_many(node, sorted(joins_at), last)
    so_far: list[tuple[Row, int]] = []
    for wid in range(min(joins_at), last + 1):
        if wid in joins_at:
            so_far = [*so_far, *joins_at[wid]]
        yield Extent(wid, so_far)


def refuse_many(node: WindowAggregate, steps: list[int], last: int) -> None:
    """Refuse windows most of which have no tuple that the one before has not."""
    for begin, end in pairwise([*steps, last + 1]):
        if end - begin > MOST_REMEMBERED:
            assert isinstance(node.window, Landmark)
            upto = Domain(node.bound_type).format(node.window.closes_at(end - 1))
            raise too_many(end - begin, upto, MOST_REMEMBERED)


def _first_above(window: Landmark, limit: Bound, first: int) -> int:
    """First window, from `first` on, that closes above the limit."""
    return first if limit == BEGINNING else max(first, (int(limit) - window.origin) // window.slide)


def _rows(window: RowWindow, placed: list[Placed], late: LateTuples) -> Iterator[Extent]:
    """Windows of rows. By arrival no tuple is late; by rank, a tuple below the bound is late as a
    whole. Windows come as the tuples do that fill them, and those that are not full at the end by
    id, then by partition."""
    if window.order is Order.RANK:
        placed = sorted(_in_time(placed, late), key=lambda each: each.item.value)
    numbers = window.row_numbers([each.item for each in placed])
    counted: dict[Any, list[tuple[Row, int]]] = defaultdict(list)
    places: dict[Any, dict[int, int]] = defaultdict(dict)  # of the tuples, by their numbers
    for place, (each, number) in enumerate(zip(placed, numbers, strict=True)):
        partition = each.item.partition if window.partitioned else ()
        counted[partition].append((each.row, number))
        places[partition][number] = place
    over = window.over_rows
    found: list[tuple[tuple[int, int, int], Extent]] = []
    for order, partition in enumerate(sorted(counted, key=_by_value)):
        members = counted[partition]
        highest = max(number for _, number in members)
        extents: dict[int, list[tuple[Row, int]]] = defaultdict(list)
        for row, number in members:
            wids = (
                over.wids_of(number) if isinstance(over, Sliding) else over.wids_of(number, highest)
            )
            for wid in wids:
                extents[wid].append((row, number))
        for wid, rows in extents.items():
            filled = places[partition].get(over.closes_at(wid) - 1, len(placed))
            found.append(((filled, wid, order), Extent(wid, rows)))
    yield from (extent for _, extent in sorted(found, key=lambda each: each[0]))


def _slide_by_tuple(
    window: SlideByTuple, placed: list[Placed], late: LateTuples
) -> Iterator[Extent]:
    """One result for every opening tuple that came in time for its own window."""
    if window.order is Order.RANK:
        placed = _in_time(placed, late)
    by_partition: dict[Any, list[Placed]] = defaultdict(list)
    opened: dict[Any, list[int]] = defaultdict(list)
    openers = set(window.openers([each.item for each in placed]))
    for number, each in enumerate(placed):
        partition = each.item.partition if window.partitioned else ()
        by_partition[partition].append(each)
        value = each.item.value
        if number in openers and window.closes_at(value) > each.gone:
            opened[partition].append(value)
        if value < each.bound and window.order is Order.ARRIVAL:
            last_missed = min(int(each.bound), value + window.range) - 1
            shown = Domain(late.id_type).value  # here, ids are values of the attribute
            missed = (shown(value), shown(last_missed))
            late.tuples.append(_late(late, each, missed, value >= each.gone))
    found: list[tuple[int, int, Extent]] = []
    for order, partition in enumerate(sorted(by_partition, key=_by_value)):
        members = by_partition[partition]
        ids = sorted(opened[partition])
        extents: dict[int, list[tuple[Row, int]]] = {wid: [] for wid in ids}
        for each in members:
            value = each.item.value
            from_ = bisect_left(ids, max(value, each.gone))
            for wid in dict.fromkeys(ids[from_ : bisect_left(ids, value + window.range)]):
                extents[wid].append((each.row, value))
        found += [(wid, order, Extent(wid, extents[wid])) for wid in ids]
    yield from (extent for _, _, extent in sorted(found, key=lambda each: each[:2]))


def _sessions(
    node: WindowAggregate,
    window: Session,
    placed: list[Placed],
    given: Relation,
    late: LateTuples,
) -> Iterator[Extent]:
    """Yield the extents of sessions. The session of a tuple depends on those before it, and a bound
    closes sessions: so, as by rank, a tuple below the bound is late as a whole."""
    rows = [(each.row, each.item.value) for each in _in_time(placed, late)]
    for start, end, members in in_sessions(window, rows, node, given.schema):
        yield Extent(start, members, end)


def _bounds(window: Window, extent: Extent) -> tuple[int | None, int]:
    if isinstance(window, Session):
        assert extent.end is not None
        return extent.wid, extent.end
    return window.bounds(extent.wid)


def _by_value(partition: tuple[Any, ...]) -> list[Any]:
    """Sort key of partitions, by their values in canonical form."""
    return [sort_key(math.nan if value == canonical(math.nan) else value) for value in partition]


def _in_time(placed: list[Placed], late: LateTuples) -> list[Placed]:
    """Drop the tuples that came below the bound, as far as those do not count."""
    for each in placed:
        if each.item.value < each.bound:
            late.tuples.append(_late(late, each, None, each.item.value >= each.gone))
    return [each for each in placed if each.item.value >= each.gone]


def _late(
    late: LateTuples, each: Placed, missed: tuple[Any, Any] | None, amended: bool
) -> LateTuple:
    bound = Domain(late.bound_type).value(int(each.bound))
    return LateTuple(each.row.values, bound, missed, amended)


def _late_type(node: WindowAggregate) -> Type:
    return node.attribute.type if node.attribute is not None else node.schema.fields[0].type


def _reached(node: WindowAggregate, answers: list[Row]) -> dict[tuple[str, str | None], Any]:
    names = node.schema.names
    return {
        (each.field.name, each.field.relation): max(
            row.values[names.index(each.field.name)] for row in answers
        )
        for each in node.progress
        if answers
    }
