"""OVER by definition: every partition in order, and for each of its rows the contents of its
frames."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from penstock.expressions.evaluation import evaluator
from penstock.model.ordering import canonical, exact_key, sort_key
from penstock.model.ticks import Domain
from penstock.model.types import Schema
from penstock.plan.nodes.over import (
    Excluded,
    FramedAggregate,
    FrameUnit,
    Neighbour,
    Numbering,
    NumberKind,
    OrderKey,
    Over,
    OverCall,
    RowFrame,
    RowsOver,
    RunningOver,
    Standing,
    StandingKind,
    ValueAt,
)
from penstock.reference.aggregates import Input, aggregate
from penstock.reference.groups import in_time, reached
from penstock.reference.relation import Relation, Row, Run


class _Partition(NamedTuple):
    """Rows in order; peers, which are equal in it, share a number in `peers`; `ticks` are of the
    only key of the order, None for NULL, if frames are measured on it."""

    rows: list[tuple[Any, ...]]
    peers: list[int]
    ticks: list[int | None]


def over(node: Over, given: Relation, run: Run) -> Relation:
    rows = [row.values for row in in_time(given, list(node.times), run)]
    time, domain = evaluator(node.time, given.schema), Domain(node.time.type)
    found = _answers(node, rows, given.schema)
    found.sort(key=lambda each: (domain.tick(time(each.row)), each.keys, each.number))
    answers = [Row((*each.row, *each.made)) for each in found]
    return Relation(node.schema, answers, reached(node.schema, node.progress, answers))


def running_over(node: RunningOver, given: Relation) -> Relation:
    """Final state of running OVER calls, after all rows."""
    found = _answers(node, [row.values for row in given.rows], given.schema)
    found.sort(key=lambda each: (each.keys, each.number))
    return Relation(node.schema, [Row((*each.row, *each.made)) for each in found])


class _Answer(NamedTuple):
    """A row, the results of its calls, its partition and its position in that."""

    row: tuple[Any, ...]
    made: tuple[Any, ...]
    keys: list[Any]
    number: int


def _answers(node: RowsOver, rows: list[tuple[Any, ...]], schema: Schema) -> list[_Answer]:
    key_of = [evaluator(each, schema) for each in node.partition]
    parts: dict[Hashable, list[tuple[Any, ...]]] = {}
    for row in rows:
        parts.setdefault(tuple(canonical(key(row)) for key in key_of), []).append(row)
    calls = [_evaluator(each.call, schema) for each in node.calls]
    found: list[_Answer] = []
    for unordered in parts.values():
        part = _in_order(node, unordered, schema)
        keys = [sort_key(key(part.rows[0])) for key in key_of]
        for number, row in enumerate(part.rows):
            made = tuple(call(part, number) for call in calls)
            within = node.most is None or made[node.most[0]] <= node.most[1]
            if within and (not node.skip or made[0] > node.skip):
                found.append(_Answer(row, () if node.bare else made, keys, number))
    return found


def _in_order(node: RowsOver, rows: list[tuple[Any, ...]], schema: Schema) -> _Partition:
    ties = [evaluator(column, schema) for column in node.ties]
    rows = sorted(rows, key=lambda row: [exact_key(value(row)) for value in ties])
    for key in reversed(node.order):
        rows = sorted(rows, key=_sorting(key, schema), reverse=key.descending)
    values = [evaluator(key.expression, schema) for key in node.order]
    peers: list[int] = []
    for number, row in enumerate(rows):
        same = number > 0 and all(
            canonical(value(row)) == canonical(value(rows[number - 1])) for value in values
        )
        peers.append(peers[-1] if same else number)
    ticks: list[int | None] = []
    if any(_measured(each.call) for each in node.calls):
        domain = Domain(node.order[0].expression.type)
        found = [values[0](row) for row in rows]
        sign = -1 if node.order[0].descending else 1
        ticks = [None if each is None else sign * domain.tick(each) for each in found]
    return _Partition(rows, peers, ticks)


def _sorting(key: OrderKey, schema: Schema) -> Callable[[tuple[Any, ...]], Any]:
    """Sort key of rows, reversed if the key descends."""
    value = evaluator(key.expression, schema)
    turned = key.nulls_first != key.descending

    def place(row: tuple[Any, ...]) -> Any:
        null, *others = sort_key(value(row))
        return (null != turned, *others)

    return place


def _measured(call: OverCall) -> bool:
    return isinstance(call, FramedAggregate | ValueAt) and call.frame.has_lengths


def _evaluator(call: OverCall, schema: Schema) -> Callable[[_Partition, int], Any]:
    match call:
        case Numbering():
            return _numbering(call.kind)
        case Standing():
            return lambda part, number: _share(call, part, number)
        case Neighbour():
            return _neighbour(call, schema)
        case ValueAt():
            return _value_at(call, schema)
        case FramedAggregate():
            return _aggregated(call, schema)


def _numbering(kind: NumberKind) -> Callable[[_Partition, int], int]:
    match kind:
        case NumberKind.ROW_NUMBER:
            return lambda _, number: number + 1
        case NumberKind.RANK:
            return lambda part, number: part.peers[number] + 1
        case NumberKind.DENSE_RANK:
            return lambda part, number: len(set(part.peers[: number + 1]))


def _share(call: Standing, part: _Partition, number: int) -> float:
    size = len(part.rows)
    match call.kind:
        case StandingKind.NTILE:
            assert call.parts is not None
            small, more = divmod(size, call.parts)
            sizes = [small + (each < more) for each in range(call.parts)]
            return next(each + 1 for each in range(call.parts) if number < sum(sizes[: each + 1]))
        case StandingKind.PERCENT_RANK:
            return part.peers[number] / (size - 1) if size > 1 else 0.0
        case StandingKind.CUME_DIST:
            return bisect_right(part.peers, part.peers[number]) / size


def _neighbour(call: Neighbour, schema: Schema) -> Callable[[_Partition, int], Any]:
    value = evaluator(call.value, schema)
    default = None if call.default is None else evaluator(call.default, schema)

    def found(part: _Partition, number: int) -> Any:
        place = number + call.offset
        if call.known:
            known = [each for each, row in enumerate(part.rows) if value(row) is not None]
            beside = [each for each in known if (each - number) * call.offset > 0]
            wanted = call.offset if call.offset < 0 else call.offset - 1
            place = beside[wanted] if abs(call.offset) <= len(beside) else -1
        if 0 <= place < len(part.rows):
            return value(part.rows[place])
        return None if default is None else default(part.rows[number])

    return found


def _value_at(call: ValueAt, schema: Schema) -> Callable[[_Partition, int], Any]:
    value = evaluator(call.value, schema)

    def found(part: _Partition, number: int) -> Any:
        rows = _held(call.frame, part, number)
        if call.known:
            rows = [row for row in rows if value(row) is not None]
        place = call.place - 1 if call.place > 0 else len(rows) - 1
        return value(rows[place]) if 0 <= place < len(rows) else None

    return found


def _aggregated(call: FramedAggregate, schema: Schema) -> Callable[[_Partition, int], Any]:
    arguments = [evaluator(each, schema) for each in call.call.arguments]
    where = None if call.call.where is None else evaluator(call.call.where, schema)

    def found(part: _Partition, number: int) -> Any:
        inputs = [
            Input(tuple(argument(row) for argument in arguments), place)
            for place, row in enumerate(_held(call.frame, part, number))
            if where is None or where(row)
        ]
        return aggregate(call.call, inputs)

    return found


def _held(frame: RowFrame, part: _Partition, number: int) -> list[tuple[Any, ...]]:
    places = range(len(part.rows))[_begin(frame, part, number) : _end(frame, part, number)]
    return [part.rows[each] for each in places if not _excluded(frame, part, number, each)]


def _excluded(frame: RowFrame, part: _Partition, number: int, other: int) -> bool:
    match frame.excluded:
        case Excluded.NO_OTHERS:
            return False
        case Excluded.CURRENT_ROW:
            return other == number
        case Excluded.GROUP:
            return part.peers[other] == part.peers[number]
        case Excluded.TIES:
            return other != number and part.peers[other] == part.peers[number]


def _begin(frame: RowFrame, part: _Partition, number: int) -> int:
    if frame.first is None:
        return 0
    if frame.unit is FrameUnit.ROWS:
        return max(0, number + frame.first)
    if frame.unit is FrameUnit.GROUPS:
        return bisect_left(part.peers, _group(part, number, frame.first))
    tick = part.ticks[number] if part.ticks else None
    if frame.first == 0 or tick is None:
        return part.peers[number]
    known = [each for each in part.ticks if each is not None]
    before = _nulls_before(part)
    return before + bisect_left(known, tick + frame.first)


def _end(frame: RowFrame, part: _Partition, number: int) -> int:
    if frame.last is None:
        return len(part.rows)
    if frame.unit is FrameUnit.ROWS:
        return max(0, number + frame.last + 1)
    if frame.unit is FrameUnit.GROUPS:
        return bisect_left(part.peers, _group(part, number, frame.last + 1))
    tick = part.ticks[number] if part.ticks else None
    if frame.last == 0 or tick is None:
        return bisect_right(part.peers, part.peers[number])
    known = [each for each in part.ticks if each is not None]
    return _nulls_before(part) + bisect_right(known, tick + frame.last)


def _group(part: _Partition, number: int, offset: int) -> int:
    """Position of the first row of the group at an offset, or one beyond all rows."""
    groups = sorted(set(part.peers))
    place = groups.index(part.peers[number]) + offset
    return -1 if place < 0 else groups[place] if place < len(groups) else len(part.rows)


def _nulls_before(part: _Partition) -> int:
    """Number of rows without a tick that are first in the order; others are last."""
    return next((place for place, tick in enumerate(part.ticks) if tick is not None), 0)
