"""Streams by definition: reading, timestamps, sub-sources, low-watermark and high-watermark; and
the nodes that process one tuple at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace
from typing import Any

from penstock.errors import PenstockError
from penstock.expressions.evaluation import evaluator
from penstock.expressions.growth import row_sizes
from penstock.io.sources.rejects import RejectKind, StreamRejects, no_room
from penstock.model.clock import Clock, SteadyClock
from penstock.model.durations import format_timestamp
from penstock.model.ordering import canonical
from penstock.model.punctuation import BEGINNING, END, Bound, Ordered, RunningBound, TimestampKind
from penstock.model.ticks import TICKS, Domain
from penstock.model.types import Kind
from penstock.model.values import to_python
from penstock.plan.nodes.node import Filter, Project, Scan, Stamp, Union, Unnest
from penstock.plan.streams import StreamDefinition, StreamProgress, no_source
from penstock.reference.relation import (
    Bounds,
    Relation,
    Row,
    Run,
    bound_evaluator,
    carried,
    field_key,
    reach_evaluator,
)


class LowWatermark:
    """Low-watermark: the minimum over the latest bound of every origin. Bounds never move back. An
    origin that ends no longer holds the others back.

    >>> low = LowWatermark(["A", "B"])
    >>> low.advance("A", 20), low.advance("B", 19), low.advance("B", 22)
    (-inf, 19, 20)
    """

    def __init__(self, origins: list[Hashable] | None = None) -> None:
        self._bounds: dict[Hashable, Bound] = {}
        # A bound that each origin has had, lowest first; what it is now is looked up only when
        # that one has become the lowest of all.
        self._queue: list[tuple[Bound, int, Hashable]] = []
        self._numbers: dict[Hashable, int] = {}  # the entry of each origin there
        self._entries = 0
        self.value: Bound = BEGINNING
        for origin in origins or []:
            self.add(origin)

    def add(self, origin: Hashable) -> Bound:
        """Add an origin. It joins at the watermark, because results up to there have been
        released."""
        if origin not in self._bounds:
            self._bounds[origin] = self.value
            self._numbers[origin] = self._entries
            heappush(self._queue, (self.value, self._entries, origin))
            self._entries += 1
        return self._bounds[origin]

    def advance(self, origin: Hashable, bound: Bound) -> Bound:
        before = self.add(origin)
        if bound > before:
            self._bounds[origin] = bound
            if before == self.value:  # otherwise somebody else holds the others back
                self._settle()
        return self.value

    def _settle(self) -> None:
        while self._queue:
            bound, number, origin = self._queue[0]
            if self._numbers.get(origin) != number:
                heappop(self._queue)  # has left
            elif self._bounds[origin] > bound:
                heapreplace(self._queue, (self._bounds[origin], number, origin))
            else:
                self.value = max(self.value, bound)
                return

    def end(self, origin: Hashable) -> Bound:
        return self.advance(origin, END)

    def leave(self, origin: Hashable) -> Bound:
        """Remove an origin, so that only the others count; it may be added again."""
        del self._bounds[origin], self._numbers[origin]
        self._settle()
        return self.value

    def raise_to(self, bound: Bound) -> Bound:
        """Raise the bound of all origins, and of those to come."""
        for origin in self._bounds:
            self._bounds[origin] = max(self._bounds[origin], bound)
        self.value = max(self.value, bound)
        return self.value

    @property
    def held_back_by(self) -> list[Hashable]:
        """Origins that hold the watermark back."""
        return [origin for origin, bound in self._bounds.items() if bound == self.value]


class HighWatermark:
    """High-watermark: the highest value seen so far."""

    def __init__(self) -> None:
        self.value: Bound = BEGINNING

    def observe(self, value: int) -> Bound:
        self.value = max(self.value, value)
        return self.value


# Reading a stream: timestamps, sub-sources, and the bound before every tuple.


@dataclass(frozen=True, slots=True)
class Arrival:
    """A tuple as it enters; `row` counts the readable rows of its part of the source."""

    values: tuple[Any, ...]
    part: str
    row: int


def scan(node: Scan, run: Run, answered: list[tuple[Any, ...]] | None = None) -> Relation:
    """Read a stream, once for all its uses: each of its rows is counted, stamped and possibly
    rejected once. The rows of an answer over tables are `answered`."""
    known = run.scanned.get(id(node.stream))
    if known is not None:
        return _with_alias(node, known)
    if answered is None and run.is_of_tables and node.stream.of_table is not None:
        table = scan(replace(node, stream=node.stream.of_table), run)
        answered = [row.values for row in table.rows]
    run.scanned[id(node.stream)] = found = _scanned(node, run, answered)
    return found


def _with_alias(node: Scan, known: Relation) -> Relation:
    """Give the tuples to another alias."""

    def bounds(given: Bounds) -> Bounds:
        return {(name, node.alias): bound for (name, _), bound in given.items()}

    rows = [replace(row, bounds=bounds(row.bounds)) for row in known.rows]
    return Relation(node.schema, rows, bounds(known.high))


def _scanned(node: Scan, run: Run, answered: list[tuple[Any, ...]] | None) -> Relation:
    stream = node.stream
    arrivals = _arrivals(stream, run) if answered is None else _of_answer(answered, run)
    if stream.progress is None:
        rows = [Row(each.values, lineage=((stream.name, i),)) for i, each in enumerate(arrivals)]
        return Relation(node.schema, rows)
    if stream.is_latent:
        rows = [
            Row(_with_stamp(stream, each.values, None), lineage=((stream.name, i),))
            for i, each in enumerate(arrivals)
        ]
        return Relation(node.schema, rows)
    return _with_progress(node, stream.progress, arrivals, run)


def _of_answer(rows: list[tuple[Any, ...]], run: Run) -> Iterator[Arrival]:
    for number, values in enumerate(rows, start=1):
        run.tuples_read += 1
        yield Arrival(values, "", number)


def _arrivals(stream: StreamDefinition, run: Run) -> Iterator[Arrival]:
    rejects = run.rejects.of_table if run.is_of_tables else run.rejects.of
    return _read(stream, run, rejects(stream.name))


def _read(stream: StreamDefinition, run: Run, rejects: StreamRejects) -> Iterator[Arrival]:
    if stream.source is None:
        raise no_source(stream)
    rows: dict[str, int] = {}
    schema = stream.input_schema
    for chunk in stream.source.read(schema, rejects):
        columns = [
            to_python(column, field.type)
            for column, field in zip(chunk.batch.columns, schema, strict=True)
        ]
        for values in zip(*columns, strict=True) if columns else ():
            rows[chunk.part] = rows.get(chunk.part, 0) + 1
            run.tuples_read += 1
            yield Arrival(values, chunk.part, rows[chunk.part])


def _with_progress(
    node: Scan, progress: StreamProgress, arrivals: Iterator[Arrival], run: Run
) -> Relation:
    """Read every tuple with the bound that its (sub-)source had before it came, or its group, if
    that was higher. A punctuation of a group says nothing about the stream as a whole.

    A new sub-source joins at the bound of the whole source, because windows up to there have been
    released; the files of PER FILE are all known from the start."""
    stream, policy = node.stream, progress.policy
    attribute = field_key(node.progress[0].field)
    domain = Domain(stream.attribute.type)
    position = stream.schema.index(stream.attribute.name)
    rejects = run.rejects.of(stream.name)
    files: list[Hashable] | None = None
    if progress.per_file and stream.source is not None:
        files = list(stream.source.parts())
    low = LowWatermark(files)
    high = HighWatermark()
    trackers: dict[Hashable, RunningBound] = {}
    computed = _computed(stream, progress)
    sub_source = _sub_source(stream, progress)
    punctuates = _punctuates(stream, progress)
    group_of = _group(stream, progress)
    of_groups: dict[Hashable, Bound] = {}
    rows: list[Row] = []
    stamps = policy.timestamps is TimestampKind.INTERNAL
    clock = SteadyClock(run.clock) if stamps else run.clock
    for number, arrival in enumerate(arrivals):
        values = arrival.values
        if stamps:
            values = _with_stamp(stream, values, clock.now())
        elif computed is not None:
            values = _with_stamp(stream, values, computed(values))
        is_punctuation, promised = punctuates(values)
        reason = _reason(node, values[position], is_punctuation, promised, clock)
        if reason is not None:
            kind, words = reason
            cells = zip(stream.input_schema, arrival.values, strict=True)
            name = stream.attribute.name
            rejects.set_aside(kind, arrival.part, arrival.row, cells, name, words)
            continue
        group = group_of(values)
        if is_punctuation and group is not None:
            of_groups[group] = max(of_groups.get(group, BEGINNING), domain.tick(promised))
            continue
        key = sub_source(values, arrival.part)
        if key not in trackers:
            trackers[key] = RunningBound(policy.rule, low.add(key))
        tracker = trackers[key]
        if is_punctuation:
            tracker.raise_to(domain.tick(promised))
            low.advance(key, tracker.bound)
            high.observe(domain.tick(promised) - 1)  # whatever lies below has been passed
            continue
        tick = domain.tick(values[position])
        before = max(tracker.observe(tick), of_groups.get(group, BEGINNING))
        low.advance(key, tracker.bound)
        high.observe(tick)
        bounds: Bounds = {}
        if before != BEGINNING:
            bounds[attribute] = domain.value(int(before))
        rows.append(Row(values, bounds, lineage=((stream.name, number),)))
    reached = {attribute: domain.value(int(high.value))} if rows else {}
    return Relation(node.schema, rows, reached)


def _computed(
    stream: StreamDefinition, progress: StreamProgress
) -> Callable[[tuple[Any, ...]], Any] | None:
    """Make the function that computes the time of a tuple from an expression; None for a tuple for
    which it fails."""
    if progress.computed is None:
        return None
    evaluate = evaluator(progress.computed, stream.input_schema)

    def time(values: tuple[Any, ...]) -> Any:
        try:
            return evaluate(values)
        except PenstockError:
            return None

    return time


def _sub_source(
    stream: StreamDefinition, progress: StreamProgress
) -> Callable[[tuple[Any, ...], str], Hashable]:
    """Make the function from a tuple and its part to its sub-source."""
    if progress.per_file:
        return lambda _, part: part
    if progress.per is None:
        return lambda _, __: ()
    evaluate = evaluator(progress.per, stream.schema)
    return lambda values, _: canonical(evaluate(values))


def _group(
    stream: StreamDefinition, progress: StreamProgress
) -> Callable[[tuple[Any, ...]], Hashable]:
    """Make the function from a tuple to the group that its punctuations are of; None if they are of
    all tuples."""
    said = progress.group_punctuation
    if said is None:
        return lambda _: None
    columns = [evaluator(column, stream.schema) for column in said.group]
    return lambda values: tuple(canonical(evaluate(values)) for evaluate in columns)


def _punctuates(
    stream: StreamDefinition, progress: StreamProgress
) -> Callable[[tuple[Any, ...]], tuple[bool, Any]]:
    """Make the function that tells whether a row is a punctuation, and its bound."""
    if progress.punctuation is None:
        return lambda _: (False, None)
    when = evaluator(progress.punctuation.when, stream.schema)
    bound = evaluator(progress.punctuation.bound, stream.schema)
    return lambda values: (True, bound(values)) if when(values) is True else (False, None)


def _reason(
    node: Scan, time: Any, is_punctuation: bool, promised: Any, clock: Clock
) -> tuple[RejectKind, str] | None:
    """Reason why a row is rejected, or None."""
    stream, room = node.stream, node.room
    assert stream.progress is not None
    limit = stream.progress.policy.future_limit
    domain = Domain(stream.attribute.type)
    if is_punctuation:
        if promised is None:
            return RejectKind.NO_PROGRESS, "a punctuation without a bound"
        tick = domain.tick(promised)
        if not TICKS.holds(tick) or tick < room.reached.low or tick - 1 > room.reached.high:
            return RejectKind.OUT_OF_RANGE, no_room(promised, domain.type)
    elif time is None:
        return RejectKind.NO_PROGRESS, stream.without_time
    elif limit is not None and time > clock.now() + limit:
        return RejectKind.FUTURE, f"{format_timestamp(time)} is too far ahead of the clock"
    elif not room.tuples.meet(TICKS).holds(domain.tick(time)):
        return RejectKind.OUT_OF_RANGE, no_room(time, domain.type)
    return None


def _with_stamp(
    stream: StreamDefinition, values: tuple[Any, ...], stamp: int | None
) -> tuple[Any, ...]:
    position = stream.schema.index(stream.attribute.name)
    return (*values[:position], stamp, *values[position:])


# Stamp, filter, project and union: one tuple at a time.


def stamp(node: Stamp, given: Relation, run: Run) -> Relation:
    position = node.column.position(given.schema)
    key = field_key(node.column)
    running = RunningBound(Ordered())
    domain = Domain(node.column.type)
    clock = SteadyClock(run.clock)
    rows = []
    for row in given.rows:
        now = clock.now()
        before = running.observe(now)
        bounds: Bounds = dict(row.bounds)
        if before != BEGINNING:
            bounds[key] = domain.value(int(before))
        values = (*row.values[:position], now, *row.values[position + 1 :])
        rows.append(replace(row, values=values, bounds=bounds))
    high = {**given.high, key: int(running.highest)} if rows else given.high
    return Relation(node.schema, rows, high)


def filter_(node: Filter, given: Relation) -> Relation:
    holds = evaluator(node.predicate, given.schema)
    rows = [row for row in given.rows if holds(row.values) is True]
    return Relation(node.schema, rows, given.high)


def project(node: Project, given: Relation) -> Relation:
    columns = [evaluator(column.expression, given.schema) for column in node.columns]
    check = row_sizes([column.expression for column in node.columns])
    by_name = {column.name: column.expression for column in node.columns}
    bounds = [
        (field_key(progressing.field), bound_evaluator(by_name[progressing.field.name]))
        for progressing in node.progress
    ]
    reached = [
        (field_key(progressing.field), reach_evaluator(by_name[progressing.field.name]))
        for progressing in node.progress
    ]
    rows = [
        replace(
            row,
            values=tuple(column(row.values) for column in columns),
            bounds=carried(row.bounds, bounds),
        )
        for row in given.rows
    ]
    if check is not None:
        for row in rows:
            check(row.values)
    return Relation(node.schema, rows, carried(given.high, reached))


def unnest(node: Unnest, given: Relation) -> Relation:
    collection = evaluator(node.expression, given.schema)
    nothing = (None,) * len(node.fields)
    rows = []
    for row in given.rows:
        items = collection(row.values) or ()
        made = [_item(node, each, number) for number, each in enumerate(items, start=1)]
        if not made and node.outer:
            made = [nothing]
        rows += [replace(row, values=(*row.values, *each)) for each in made]
    return Relation(node.schema, rows, given.high)


def _item(node: Unnest, item: Any, number: int) -> tuple[Any, ...]:
    several = node.spread or node.expression.type.kind is Kind.MAP
    width = len(node.fields) - node.numbered
    parts = (item if item is not None else (None,) * width) if several else (item,)
    if node.from_zero:
        return (number - 1, *parts)
    return (*parts, number) if node.numbered else tuple(parts)


def union(node: Union, given: list[Relation]) -> Relation:
    rows: list[Row] = []
    high: Bounds = {}
    for number, relation in enumerate(given):
        names = {
            field_key(old): field_key(new)
            for old, new in zip(relation.schema, node.schema, strict=True)
        }
        for row in relation.rows:
            bounds = {names[key]: bound for key, bound in row.bounds.items() if key in names}
            # two branches may have it from the same tuple
            lineage = tuple((number, part) for part in row.lineage)
            rows.append(replace(row, bounds=bounds, lineage=lineage))
        for key, reached in relation.high.items():
            if key in names:
                high[names[key]] = max(reached, high.get(names[key], reached))
    return Relation(node.schema, rows, high)
