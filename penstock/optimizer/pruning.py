"""Pruning: which columns each part of a plan needs, columns that streams and joins can leave out,
and the ticks for which windows have bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from penstock.errors import PenstockError
from penstock.expressions.evaluation import evaluator
from penstock.io.sources.source import KnowsItsTypes
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.ticks import EVERYWHERE, TICKS, Domain, Interval, Room, ticks_of
from penstock.model.types import Field, Kind, Schema
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.expressions import Column, Expression, columns_of, rises_with
from penstock.plan.nodes.aggregation import DistinctOn, GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import Difference, Join, Lookup, RunningJoin, Sequence, SequenceMode
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.nodes.over import RowsOver
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.physical import OperatorKind, PhysicalNode, PhysicalPlan
from penstock.plan.streams import StreamDefinition
from penstock.plan.window_kinds import Landmark, Session, SlideByTuple, Sliding

Needed: TypeAlias = frozenset[tuple[str | None, str]] | None  # relation and name; None: all
_NOTHING: frozenset[tuple[str | None, str]] = frozenset()


class ColumnsNeeded:
    """Pass down a plan that tracks the needed columns; subclasses override what happens to scans
    and to the inputs of joins.
    """

    def scan(self, scan: Scan, needed: Needed) -> Scan:  # noqa: ARG002
        return scan

    def joined(self, join: Node, inputs: list[tuple[Node, Needed]]) -> list[Node]:  # noqa: ARG002
        """Rewrite the inputs of a join of two or more streams."""
        return [self.below(node, needed) for node, needed in inputs]

    def below(self, node: Node, needed: Needed) -> Node:
        """Rewrite a part of a plan of which some columns are needed."""
        match node:
            case Scan():
                return self.scan(node, needed)
            case Filter():
                below = _with(needed, [node.predicate])
            case Stamp():
                below = _with(needed, [node.column])
            case Unnest():
                below = _with(needed, [node.expression])
            case Project():
                below = _with(_NOTHING, [column.expression for column in node.columns])
            case DistinctOn():
                below = _with(_NOTHING, [node.attribute, *node.keys, *node.columns])
            case RowsOver():
                below = _with(needed, node.looked_at)
            case WindowAggregate() | GroupAggregate():
                below = _with(_NOTHING, _looked_at(node))
            case Join():
                return self._join(node, needed)
            case RunningJoin():
                return self._running_join(node, needed)
            case Lookup():
                return self._lookup(node, needed)
            case Difference():
                return self._difference(node, needed)
            case Sequence():
                return self._sequence(node, needed)
            case _:  # columns referred to by place, or rows that are compared as a whole
                below = None
        return with_inputs(node, lambda each: self.below(each, below))

    def _join(self, node: Join, needed: Needed) -> Join:
        """Columns of the condition and of the output; partners may not be part of the output."""
        own: list[Expression] = [*node.attributes]
        own += [node.condition] if node.condition is not None else []
        own += [column for each in node.also for column in (each.left, each.right)]
        own += [column for times in node.times for column in times]
        partners = _NOTHING if node.kind.left_alone else needed
        first, *others = node.branches
        inputs = [(first, _with(needed, own)), *((each, _with(partners, own)) for each in others)]
        return replace(node, branches=tuple(self.joined(node, inputs)))

    def _running_join(self, node: RunningJoin, needed: Needed) -> RunningJoin:
        own = [node.condition] if node.condition is not None else []
        partners = _NOTHING if node.kind.left_alone else needed
        inputs = [(node.left, _with(needed, own)), (node.right, _with(partners, own))]
        left, right = self.joined(node, inputs)
        return replace(node, left=left, right=right)

    def _lookup(self, node: Lookup, needed: Needed) -> Lookup:
        own = [node.condition] if node.condition is not None else []
        rows = _NOTHING if node.kind.left_alone else needed
        table = self.below(node.table, _with(rows, own))
        return replace(node, input=self.below(node.input, _with(needed, own)), table=table)

    def _difference(self, node: Difference, needed: Needed) -> Difference:
        """Columns of the output come from the left side alone, under other names."""
        if needed is not None:
            pairs = zip(node.left.schema, node.schema, strict=False)  # but for the last one
            kept = [of for of, field in pairs if (field.relation, field.name) in needed]
            needed = frozenset((field.relation, field.name) for field in kept)
        (at_left, at_right), keys = node.attributes, node.keys
        left = self.below(node.left, _with(needed, [at_left, *(one for one, _ in keys)]))
        right = self.below(node.right, _with(_NOTHING, [at_right, *(other for _, other in keys)]))
        return replace(node, left=left, right=right)

    def _sequence(self, node: Sequence, needed: Needed) -> Sequence:
        """All columns decide which of several tuples of one time is taken, from left to right:
        among the first ones, and where those are used up, among the second ones, too.
        """
        if node.mode is SequenceMode.CHRONICLE:
            needed = None
        own: list[Expression] = [*node.attributes]
        own += [node.condition] if node.condition is not None else []
        second = self.below(node.second, _with(needed, own))
        return replace(node, first=self.below(node.first, None), second=second)


def progress_columns(stream: StreamDefinition) -> set[str]:
    """Columns that a stream needs for its progress."""
    progress = stream.progress
    if progress is None:
        return set()
    looked_at = [each for each in (progress.per, progress.computed) if each is not None]
    if progress.punctuation is not None:
        said = progress.punctuation
        looked_at += [said.when, said.bound, *said.group]
    return {progress.attribute, *(column.name for e in looked_at for column in columns_of(e))}


def _looked_at(node: WindowAggregate | GroupAggregate) -> list[Expression]:
    calls = [aggregate.call for aggregate in node.aggregates]
    found = [key.expression for key in node.keys]
    found += [argument for call in calls for argument in call.arguments]
    found += [call.where for call in calls if call.where is not None]
    if isinstance(node, WindowAggregate):
        found += [part.expression for part in node.partition]
        found += [node.attribute] if node.attribute is not None else []
    return found


def _with(needed: Needed, expressions: Iterable[Expression]) -> Needed:
    if needed is None:
        return None
    return needed | {_column_key(column) for each in expressions for column in columns_of(each)}


def _column_key(column: Column) -> tuple[str | None, str]:
    return column.relation, column.name


# Leave out columns of streams that a query does not need.


def prune_columns(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Leave out columns of streams that are not needed. This applies only to columns of which the
    source says that their values always fit: reading another one may reject a row. Late tuples
    that are delivered have all of their columns.

    before: WindowAggregate sum(len) BY k (Filter len > 0 (Scan s(k, len, ts, note, …)))
    after:  WindowAggregate sum(len) BY k (Filter len > 0 (Scan s(k, len, ts)))

    >>> from penstock.model.types import BIGINT
    >>> from penstock.plan.expressions import Column, Named
    >>> from penstock.plan.nodes.node import Project
    >>> from penstock.io.sources.memory import BatchSource
    >>> class Typed(BatchSource):  # as a DataFrame is
    ...     def always_fits(self, field: Field) -> bool:
    ...         return True
    >>> schema = Schema([Field(name, BIGINT) for name in ("k", "len", "note")])
    >>> stream = StreamDefinition("s", schema, source=Typed([], "typed"))
    >>> columns = (Named("k", Column("k", BIGINT, "s")),)
    >>> query = QueryPlan(Project(Scan(stream, "s"), columns))
    >>> query.input.input.schema.names, prune_columns(query, Settings()).input.input.schema.names
    (('k', 'len', 'note'), ('k',))
    """
    if query.late is not Late.DROP:
        return query
    return with_inputs(query, lambda node: _Narrower().below(node, None))


class _Narrower(ColumnsNeeded):
    def scan(self, scan: Scan, needed: Needed) -> Scan:
        return scan if needed is None else _narrowed(scan, needed)


def _narrowed(scan: Scan, needed: frozenset[tuple[str | None, str]]) -> Scan:
    stream = scan.stream
    of_progress = progress_columns(stream)
    kept = tuple(
        field
        for field in stream.schema
        if (scan.alias, field.name) in needed
        or field.name in of_progress
        or not _always_fits(stream, field)
    )
    read = stream.input_schema.fields
    if not any(field in kept for field in read):
        # rows have to be counted by something that is read, which stamps are not
        kept = tuple(field for field in stream.schema if field in kept or field in read[:1])
    if len(kept) == len(stream.schema.fields):
        return scan
    return replace(scan, stream=replace(stream, schema=Schema(kept)))


def _always_fits(stream: StreamDefinition, field: Field) -> bool:
    source = stream.source
    return isinstance(source, KnowsItsTypes) and source.always_fits(field)


# Find the columns of the inputs of a join that are not needed: it need not keep their values, nor
# copy them into every pair.

_NARROW = (Kind.BOOLEAN, Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DATE, Kind.TIMESTAMP)
_JOINS = (OperatorKind.OA_JOIN, OperatorKind.RUNNING_JOIN)
_ByNode: TypeAlias = dict[int, tuple[tuple[int, ...], ...]]


def find_unseen(plan: PhysicalPlan, settings: Settings) -> PhysicalPlan:  # noqa: ARG001
    """Find columns of the inputs of joins that are not needed. Only texts and other wide types are
    left out: for a number, that would cost more than keeping it. Nothing is left out where late
    tuples are delivered, which have all of their columns, where groups are punctuated, and in
    shared parts.

    before: Project a.id (OaJoin (Read a(id, t, note), Read b(id, t, note)))
    after:  the same, where the join keeps no note

    >>> import penstock as ps
    >>> from penstock.optimizer.lowering import lower
    >>> db = ps.connect()
    >>> for name in "ab":
    ...     db.stream(name, [{"id": 3, "t": 4, "note": "x"}], progress=ps.progress("t", delay=5))
    >>> text = "SELECT a.id, b.note FROM a [RANGE 5], b [RANGE 5] WHERE a.id = b.id"
    >>> plan = find_unseen(lower(db.sql(text).plan, Settings()), Settings())
    >>> [node.unseen for node in plan.root.walk() if node.unseen]
    [((2,), ())]
    """
    query = plan.query
    if query.late is not Late.DROP or plan.shared or any(map(_tells_groups, query.walk())):
        return plan
    finder = _Finder()
    finder.below(plan.root.logical, None)
    return replace(plan, root=_noted(plan.root, finder.found))


class _Finder(ColumnsNeeded):
    def __init__(self) -> None:
        self.found: _ByNode = {}

    def joined(self, join: Node, inputs: list[tuple[Node, Needed]]) -> list[Node]:
        if not (join.signed or join.takes_back):  # where all values count
            self.found[id(join)] = tuple(_unseen(*each) for each in inputs)
        return super().joined(join, inputs)


def _unseen(node: Node, needed: Needed) -> tuple[int, ...]:
    if needed is None:
        return ()
    return tuple(
        place
        for place, field in enumerate(node.schema)
        if (field.relation, field.name) not in needed and field.type.kind not in _NARROW
    )


def _tells_groups(node: Node) -> bool:
    promised = node.stream.progress if isinstance(node, Scan) else None
    return promised is not None and promised.group_punctuation is not None


def _noted(node: PhysicalNode, found: _ByNode) -> PhysicalNode:
    ports = tuple(replace(port, input=_noted(port.input, found)) for port in node.ports)
    unseen = found.get(id(node.logical), ()) if node.operator in _JOINS else ()
    return replace(node, ports=ports, unseen=unseen if any(unseen) else ())


# Tell every scan which of its tuples have windows with representable bounds.
#
# The bounds of windows are values of a type, so they have a lowest and a highest one.  From the
# results to the scans, every node gives the values for which its windows have bounds; intervals of
# expressions that rise with a column are mapped back to values of that column.

_Key: TypeAlias = tuple[str | None, str]  # relation and name
_Rooms: TypeAlias = dict[_Key, Room]


def leave_room(query: QueryPlan, settings: Settings) -> QueryPlan:  # noqa: ARG001
    """Set the ticks that scans allow, so that all windows have representable bounds.

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
    """Intersection of the allowed ticks over all scans of a stream: a row takes part in all of
    them or in none.
    """
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
            below = _through([(_field_key(field), given) for field, given in pairs], rooms)
        case Union():
            branches = []
            for branch in node.branches:
                fields = zip(node.schema, branch.schema, strict=True)
                own = _through(
                    [(_field_key(field), Column.of(given)) for field, given in fields], rooms
                )
                branches.append(_told(branch, own))
            same = all(new is old for new, old in zip(branches, node.branches, strict=True))
            return node if same else replace(node, branches=tuple(branches))
        case WindowAggregate() | DistinctOn():
            below = _below_windows(node, rooms)
        case GroupAggregate():
            pairs = zip(node.schema, (key.expression for key in node.keys), strict=False)
            below = _through([(_field_key(field), given) for field, given in pairs], rooms)
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
    """Allowed ticks below windows: those that the windows, and the nodes above them, have bounds
    for.
    """
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
    """Ticks whose first window has representable bounds; the later windows are those of later
    tuples.
    """

    def first(tick: int) -> int:
        return window.wids_of(tick, tick).start

    return _between(
        lambda tick: first(tick) >= ids.low and window.closes_at(first(tick)) >= ends.low,
        lambda tick: first(tick) > ids.high or window.closes_at(first(tick)) > ends.high,
    )


_BOUNDS = ("window_start", "window_end", "window_id")


def _difference(node: Difference, rooms: _Rooms) -> Node:
    """Allowed ticks below EXCEPT ON: a tuple leaves the tick after its window, and that is a time
    among the results.
    """
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
    """Allowed ticks of columns, from those of expressions of them."""
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
    if len(columns) != 1:  # other columns may compensate
        return {}
    (column,) = columns
    value = evaluator(expression, Schema((Field(column.name, column.type, column.relation),)))
    given, made = Domain(column.type), Domain(expression.type)

    def tick(x: int) -> Bound:
        """Tick of the expression; infinite, so outside every interval, where it has no value."""
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
    """Interval from the first tick for which `begun` holds to the last for which `passed` does
    not; both are monotone.
    """
    return Interval(_first(begun, within), _first(passed, within) - 1)


def _first(holds: Callable[[int], bool], within: Interval) -> int:
    """First tick for which a monotone predicate holds; the one after the last if there is none."""
    low, high = within.low, within.high + 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _field_key(field: Field) -> _Key:
    return field.relation, field.name
