"""Tell every scan which of its tuples have windows that can be written down.

The bounds of windows are values like any other, so they have a lowest and a highest one.  Going
from the results to the scans, every node says which values its windows leave room for; what rises
with a column is turned back into values of that column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from penstock.errors import PenstockError
from penstock.model.domain import Domain
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.room import EVERYWHERE, TICKS, Interval, Room, ticks_of
from penstock.model.schema import Field, Schema
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.aggregates import GroupAggregate, WindowAggregate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Project, Scan, Union
from penstock.plan.properties.monotone import rises_with
from penstock.scalars.evaluate import evaluator
from penstock.windows.landmark import Landmark
from penstock.windows.session import Session
from penstock.windows.slide_by_tuple import SlideByTuple
from penstock.windows.sliding import Sliding

_Key: TypeAlias = tuple[str | None, str]  # relation and name
_Rooms: TypeAlias = dict[_Key, Room]


def leave_room(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """
    before: WindowAggregate [RANGE 10, SLIDE 10, WA t] (Scan s)
    after:  WindowAggregate [RANGE 10, SLIDE 10, WA t] (Scan s, t from -2^63 + 8 to 2^63 - 9)

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"t": 4}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s").plan
    >>> (scan,) = leave_room(query, Settings()).input.input.inputs
    >>> scan.room.tuples.low + 2**63, 2**63 - scan.room.tuples.high
    (8, 9)
    """
    told = with_inputs(query, lambda node: _told(node, {}))
    return with_inputs(told, lambda node: _as_one(node, _rooms_of_streams(told)))


def _rooms_of_streams(query: QueryPlan) -> dict[int, Room]:
    """What suits all scans of a stream: a row takes part in all of them or in none."""
    rooms: dict[int, Room] = {}
    for node in query.walk():
        if isinstance(node, Scan):
            rooms[id(node.stream)] = rooms.get(id(node.stream), EVERYWHERE).meet(node.room)
    return rooms


def _as_one(node: Node, rooms: dict[int, Room]) -> Node:
    if isinstance(node, Scan):
        room = rooms.get(id(node.stream), node.room)  # not for tables
        return node if room == node.room else replace(node, room=room)
    return with_inputs(node, lambda each: _as_one(each, rooms))


def _told(node: Node, rooms: _Rooms) -> Node:
    match node:
        case Scan():
            return _scan(node, rooms)
        case Project():
            pairs = zip(node.schema, (column.expression for column in node.columns), strict=True)
            below = _through([(_key(field), given) for field, given in pairs], rooms)
        case Union():
            branches = []
            for branch in node.branches:
                fields = zip(node.schema, branch.schema, strict=True)
                own = _through([(_key(field), Column.of(given)) for field, given in fields], rooms)
                branches.append(_told(branch, own))
            same = all(new is old for new, old in zip(branches, node.branches, strict=True))
            return node if same else replace(node, branches=tuple(branches))
        case WindowAggregate() | DistinctOn():
            below = _below_windows(node, rooms)
        case GroupAggregate():
            pairs = zip(node.schema, (key.expression for key in node.keys), strict=False)
            below = _through([(_key(field), given) for field, given in pairs], rooms)
        case Difference():
            return _difference(node, rooms)
        case _:  # filters, joins, stamps, DISTINCT: columns as they are
            below = rooms
    return with_inputs(node, lambda each: _told(each, below))


def _scan(scan: Scan, rooms: _Rooms) -> Scan:
    progress = scan.stream.progress
    if progress is None or scan.stream.is_latent:
        return scan
    attribute = scan.stream.attribute
    room = rooms.get((scan.alias, attribute.name), EVERYWHERE)
    return scan if room == scan.room else replace(scan, room=room)


# --- windows -------------------------------------------------------------------------------------


def _below_windows(node: WindowAggregate | DistinctOn, rooms: _Rooms) -> _Rooms:
    """What the windows leave room for, and what stands on them."""
    if node.attribute is None:
        return {}
    asked = {name: rooms.get((None, name), EVERYWHERE).tuples for name in _BOUNDS}
    bounds = ticks_of(node.bound_type)
    starts, ends = asked["window_start"].meet(bounds), asked["window_end"].meet(bounds)
    ids = asked["window_id"].meet(TICKS)
    match node.window:
        case Sliding() as sliding:
            return _rooms_of(node.attribute, Room(_sliding(sliding, starts, ends, ids)))
        case Landmark() as marks:
            tuples = _landmark(marks, ends, ids)
            return _rooms_of(node.attribute, Room(tuples, Interval(TICKS.low, tuples.high)))
        case Session() as session:
            alone = Interval(ends.low - session.shortest, ends.high - session.shortest)
            return _rooms_of(node.attribute, Room(starts.meet(ids).meet(alone)))
        case SlideByTuple(span):
            ends = ends.meet(ids)
            low, high = max(starts.low + span, ends.low), min(starts.high + span, ends.high)
            return _rooms_of(node.attribute, Room(Interval(low, high)))
        case _:  # over ranks: the bounds are numbers of rows
            return {}


def _sliding(window: Sliding, starts: Interval, ends: Interval, ids: Interval) -> Interval:
    def begun(tick: int) -> bool:
        first = window.wids_of(tick).start
        start, end = window.bounds(first)
        return start >= starts.low and end >= ends.low and first >= ids.low

    def passed(tick: int) -> bool:
        wids = window.wids_of(tick)
        last = max(wids.start, wids.stop - 1)
        start, end = window.bounds(last)
        return start > starts.high or end > ends.high or last > ids.high

    return _between(begun, passed)


def _landmark(window: Landmark, ends: Interval, ids: Interval) -> Interval:
    """Of the first window that a tuple is in; the later ones are those of other tuples."""

    def first(tick: int) -> int:
        return window.wids_of(tick, tick).start

    return _between(
        lambda tick: first(tick) >= ids.low and window.closes_at(first(tick)) >= ends.low,
        lambda tick: first(tick) > ids.high or window.closes_at(first(tick)) > ends.high,
    )


_BOUNDS = ("window_start", "window_end", "window_id")


def _difference(node: Difference, rooms: _Rooms) -> Node:
    """A tuple leaves the tick after its window, and that is a time among the results."""
    changed = rooms.get((node.alias, "changed_at"), EVERYWHERE).tuples
    changed = changed.meet(ticks_of(node.attributes[0].type))
    sides = []
    for side, attribute, span in zip(node.inputs, node.attributes, node.ranges, strict=True):
        stays = 0 if span is None else span + 1
        room = Room(Interval(changed.low, changed.high - stays))
        sides.append(_told(side, _rooms_of(attribute, room)))
    left, right = sides
    return replace(node, left=left, right=right)


# --- back to columns -----------------------------------------------------------------------------


def _through(computed: list[tuple[_Key, Expression]], rooms: _Rooms) -> _Rooms:
    """The room of columns, from the room of what is computed from them."""
    below: _Rooms = {}
    for key, expression in computed:
        if key in rooms:
            for column, room in _rooms_of(expression, rooms[key]).items():
                below[column] = below.get(column, EVERYWHERE).meet(room)
    return below


def _rooms_of(expression: Expression, room: Room) -> _Rooms:
    if isinstance(expression, Column):
        return {(expression.relation, expression.name): room}
    columns = tuple(dict.fromkeys(rises_with(expression)))
    if len(columns) != 1:  # the others may make up for it
        return {}
    (column,) = columns
    value = evaluator(expression, Schema((Field(column.name, column.type, column.relation),)))
    given, made = Domain(column.type), Domain(expression.type)

    def tick(x: int) -> Bound:
        """Beyond the type there is no value, so it lies beyond every interval."""
        try:
            found = value((given.value(x),))
        except PenstockError:
            return END if x > 0 else BEGINNING
        return made.tick(found)

    def before(wanted: Interval) -> Interval:
        if wanted == TICKS and expression.type == column.type:
            return wanted
        within = ticks_of(column.type)
        return _between(lambda x: tick(x) >= wanted.low, lambda x: tick(x) > wanted.high, within)

    return {(column.relation, column.name): Room(before(room.tuples), before(room.reached))}


def _between(
    begun: Callable[[int], bool], passed: Callable[[int], bool], within: Interval = TICKS
) -> Interval:
    """From the first tick with which something has begun to the last with which it has not passed;
    neither is ever undone on the way up."""
    return Interval(_first(begun, within), _first(passed, within) - 1)


def _first(holds: Callable[[int], bool], within: Interval) -> int:
    """The first tick for which it is true; the one after the last if it is for none."""
    low, high = within.low, within.high + 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _key(field: Field) -> _Key:
    return field.relation, field.name
