"""Conflicts between the operations of dataflow expressions, their removal, the scheduling graph,
and EXPLAIN CONFLICTS (sections 2.4 and 3.2 of Getta and Vossough).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from penstock.model.punctuation import Slack, TimestampKind
from penstock.optimizer.dataflow import DataflowExpression, Operation, translate
from penstock.optimizer.join_order import chosen, margin_of
from penstock.optimizer.rewrite import Settings
from penstock.plan.algorithms import Consistency
from penstock.plan.join_trees import Joined, flat
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.join import Join
from penstock.plan.nodes.node import Node, Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.streams import StreamDefinition

OUT = "w_out"


class Removal(Enum):
    """Way to remove a conflict."""

    TIMESTAMPS = "timestamps"  # an item reads only items before it
    CONTAINERS = "no containers"  # intermediate results are not kept
    RAISED = "raised timestamps"  # intermediate results count as later than all that have read
    ORDER = "relaxed order"  # the output is not read before the end


@dataclass(frozen=True, slots=True)
class Conflict:
    """Conflict of two operations, by their numbers, on a window, which is empty if they only have
    to stay in the order of their items.
    """

    one: int
    other: int
    window: str
    removed_by: Removal


@dataclass(frozen=True)
class Conflicts:
    """Conflicts between the operations of some expressions, numbered in order; operations that are
    the same, like the recorder of the output, are one.
    """

    expressions: tuple[DataflowExpression, ...]

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """Distinct operations. The recorders of the output come last, as in the paper."""
        found = dict.fromkeys(
            _plain(each) for expression in self.expressions for each in expression.operations
        )
        return tuple(sorted(found, key=lambda each: each.window == OUT))

    def number(self, operation: Operation) -> int:
        return self.operations.index(_plain(operation))

    @cached_property
    def found(self) -> tuple[Conflict, ...]:
        """All conflicts. An operation is in conflict with itself, because items stay in order; and
        with others that use the same window, if one of them writes it.
        """
        made = []
        for one, first in enumerate(self.operations):
            for other, second in enumerate(self.operations[one:], one):
                window = first.window if first.window == second.window else ""
                shared = bool(window) and (_writes(first) or _writes(second))
                if one == other or shared:
                    made.append(Conflict(one, other, window, self._removal(first, window)))
        return tuple(made)

    def matrix(self, removed: Collection[Removal] = ()) -> list[list[int]]:
        """Conflict matrix C: 1 where two operations are in conflict, except for removed conflicts.
        Those on containers are removed by dropping these, or by raised timestamps.
        """
        size = range(len(self.operations))
        made = [[0 for _ in size] for _ in size]
        for each in self.found:
            raised = each.removed_by is Removal.CONTAINERS and Removal.RAISED in removed
            if each.removed_by not in removed and not raised:
                made[each.one][each.other] = made[each.other][each.one] = 1
        return made

    def _removal(self, operation: Operation, window: str) -> Removal:
        if window == OUT or operation.symbol == "γ":  # groups are folded in any order
            return Removal.ORDER
        return Removal.CONTAINERS if window in self.containers else Removal.TIMESTAMPS

    @cached_property
    def containers(self) -> frozenset[str]:
        """Windows of intermediate results: they are written after another window was read."""
        found = set()
        for expression in self.expressions:
            read = False
            for each in expression.operations:
                if _writes(each) and read and each.window != OUT:
                    found.add(each.window)
                read |= bool(each.window) and not _writes(each)
        return frozenset(found)


def _writes(operation: Operation) -> bool:
    return operation.symbol == "→"


def _plain(operation: Operation) -> Operation:
    """The operation without its costs, which may differ between expressions."""
    return Operation(operation.symbol, operation.window, operation.by)


def shown_matrix(matrix: Sequence[Sequence[int]]) -> list[str]:
    """Format a conflict matrix as lines.

    >>> shown_matrix([[1, 0], [0, 1]])
    ['     α1 α2', 'α1    1  ·', 'α2    ·  1']
    """
    names = [f"α{number + 1}" for number in range(len(matrix))]
    wide = max(map(len, names))
    lines = [" " * (wide + 2) + "".join(f" {name:>{wide}}" for name in names)]
    for name, row in zip(names, matrix, strict=True):
        cells = "".join(f" {'1' if each else '·':>{wide}}" for each in row)
        lines.append(f"{name:<{wide}}  {cells}")
    return lines


# The scheduling graph of running computations: for every item the remaining operations of its
# expression, and edges to operations that have to wait (figure 4 of Getta and Vossough).


class Step(NamedTuple):
    """An operation, by its number, for an item; `place` is its position in the expression."""

    item: str
    place: int
    operation: int

    def __str__(self) -> str:
        return f"α{self.operation + 1}({self.item})"


@dataclass
class SchedulingGraph:
    """Scheduling graph. Solid edges go from an operation to the next one of the same item, dashed
    ones from an operation to a conflicting one of a later item. A step can begin when no edge
    leads to it, and leaves the graph when it is done.

    >>> from penstock.optimizer.dataflow import DataflowExpression, Operation
    >>> record, read, out = Operation("→", "w_r"), Operation("⋈", "w_s"), Operation("→", "w_out")
    >>> graph = SchedulingGraph(Conflicts((DataflowExpression("r", (record, read, out)),)))
    >>> graph.arrive("r", "d1")
    >>> graph.arrive("r", "d2")
    >>> [str(step) for step in graph.ready()], len(graph.dashed)
    (['α1(d1)'], 3)
    >>> graph.complete(graph.ready()[0])
    >>> [str(step) for step in graph.ready()]
    ['α2(d1)', 'α1(d2)']
    """

    conflicts: Conflicts
    removed: Collection[Removal] = ()
    steps: list[Step] = field(default_factory=list)
    solid: list[tuple[Step, Step]] = field(default_factory=list)
    dashed: list[tuple[Step, Step]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._matrix = self.conflicts.matrix(self.removed)

    def arrive(self, stream: str, item: str) -> None:
        """Append an item to a stream."""
        expression = next(each for each in self.conflicts.expressions if each.stream == stream)
        numbers = [self.conflicts.number(each) for each in expression.operations]
        new = [Step(item, place, number) for place, number in enumerate(numbers)]
        self.dashed += [
            (before, step)
            for step in new
            for before in self.steps
            if self._matrix[before.operation][step.operation]
        ]
        self.steps += new
        self.solid += list(pairwise(new))

    def ready(self) -> list[Step]:
        blocked = {to for _, to in (*self.solid, *self.dashed)}
        return [step for step in self.steps if step not in blocked]

    def complete(self, step: Step) -> None:
        assert step in self.ready(), f"{step} has to wait"
        self.steps.remove(step)
        self.solid = [edge for edge in self.solid if edge[0] != step]
        self.dashed = [edge for edge in self.dashed if edge[0] != step]

    def rounds(self) -> int:
        """Number of rounds if all steps that are ready run at the same time; the graph is empty
        afterwards.
        """
        count = 0
        while self.steps:
            for step in self.ready():
                self.complete(step)
            count += 1
        return count

    def dot(self) -> str:
        """Format for Graphviz: a row for every item."""
        lines = ["digraph schedule {", "  rankdir=LR; node [shape=circle];"]
        for item in dict.fromkeys(step.item for step in self.steps):
            own = [step for step in self.steps if step.item == item]
            named = "; ".join(f'"{step}" [label="α{step.operation + 1}"]' for step in own)
            lines.append(f'  subgraph "cluster_{item}" {{ label="{item}"; {named}; }}')
        lines += [f'  "{one}" -> "{other}";' for one, other in self.solid]
        lines += [
            f'  "{one}" -> "{other}" [style=dashed, constraint=false];'
            for one, other in self.dashed
        ]
        return "\n".join([*lines, "}"])


# Order invariance: whether the result of a query depends on the order of the items of its streams.


def order_matters(node: Node) -> list[str]:
    """Reasons why the order of items matters; empty if the result is order invariant: the same for
    any order of the items. Late items do not count: they are late by the order of their own
    stream.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"x": 1, "t": 1}], progress=ps.progress("t", delay=5))
    >>> order_matters(db.sql("SELECT sum(x) AS n [RANGE 9, SLIDE 3, WA t] FROM s").plan)
    []
    >>> order_matters(db.sql("SELECT sum(x) AS n [RANGE 9 ROWS, SLIDE 3 ROWS] FROM s").plan)
    ['a window counts rows as they come']
    """
    return list(dict.fromkeys(_reasons(node)))


def _reasons(node: Node) -> Iterator[str]:
    for each in node.walk():
        if isinstance(each, WindowAggregate):
            if each.counts_rows:
                yield "a window counts rows as they come"
            for call in (named.call for named in each.aggregates):
                if call.function.implementation is not None:
                    yield f"{call.function.name} is told of tuples one after the other"
        if isinstance(each, Scan):
            yield from _of_stream(each.stream)


def _of_stream(stream: StreamDefinition) -> Iterator[str]:
    if stream.progress is None:
        return
    policy = stream.progress.policy
    if policy.timestamps is not TimestampKind.EXTERNAL:
        yield f"tuples of {stream.name} are stamped as they come ({policy.timestamps.value})"
    if isinstance(policy.rule, Slack):
        yield f"SLACK of {stream.name} counts tuples as they come"


# Concurrent items with containers, in any order of steps: raised timestamps make the results those
# of a serial execution (section 3.2 of Getta and Vossough).
#
# This is a model of what a scheduler may do, to show why no step has to wait; the operators of the
# engine process whole batches.

Values: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Stamped:
    """An item or intermediate result with its timestamp."""

    timestamp: float
    values: Values


@dataclass
class SharedWindow:
    """Window of items or of intermediate results. `compared` is the highest timestamp of an item
    that has read it.
    """

    contents: list[Stamped] = field(default_factory=list)
    compared: float = float("-inf")

    def record(self, item: Stamped, raises: bool) -> Stamped:
        """Recorder →(w): an item that comes too late for one that has already read is put behind
        it. Then it reads that one itself at its next step.
        """
        if raises and item.timestamp <= self.compared:
            item = Stamped(self.compared + _LITTLE, item.values)
        self.contents.append(item)
        return item

    def look(self, item: Stamped) -> list[Stamped]:
        """Join ⋈(w): read the contents that have a lower timestamp and agree in all common
        columns. A result has the timestamp of the item that found it.
        """
        self.compared = max(self.compared, item.timestamp)
        return [
            Stamped(item.timestamp, {**each.values, **item.values})
            for each in self.contents
            if each.timestamp < item.timestamp and _agree(each.values, item.values)
        ]


_LITTLE = 1e-6  # timestamps of items that arrive are whole numbers


@dataclass(frozen=True, slots=True)
class Record:
    """Step that records an item in a window."""

    window: str


@dataclass(frozen=True, slots=True)
class Look:
    """Step that joins an item with a window."""

    window: str


RaisedStep: TypeAlias = Record | Look


@dataclass
class ConcurrentItems:
    """Items of several streams that run concurrently through their expressions, given as steps by
    stream. A step of an item is done for all results of the item, one after the other, because
    each of these may have its own timestamp.

    >>> both = {"r": (Record("r"), Look("s")), "s": (Record("s"), Look("r"))}
    >>> running = ConcurrentItems(both)
    >>> running.arrive("r", {"a": 1}), running.arrive("s", {"a": 1})
    (0, 1)
    >>> [running.step(item) for item in (1, 0, 1, 0)], running.results
    ([True, True, True, True], [])
    >>> running.step(0), running.step(1), running.results
    (False, False, [{'a': 1}])
    """

    expressions: Mapping[str, Sequence[RaisedStep]]
    raises: bool = True
    windows: dict[str, SharedWindow] = field(default_factory=dict)
    results: list[Values] = field(default_factory=list)
    _left: list[Iterator[None]] = field(default_factory=list)

    def arrive(self, stream: str, values: Values) -> int:
        """Append an item to a stream; return its number, which is also its timestamp."""
        number = len(self._left)
        self._left.append(self._through(Stamped(number, values), self.expressions[stream]))
        return number

    def step(self, item: int) -> bool:
        """Run the next step of an item; return whether there was one."""
        return next(self._left[item], self) is None

    def _through(self, item: Stamped, steps: Sequence[RaisedStep]) -> Iterator[None]:
        if not steps:
            self.results.append(item.values)
            return
        first, *others = steps
        window = self.windows.setdefault(first.window, SharedWindow())
        if isinstance(first, Record):
            item = window.record(item, self.raises)
            yield
            yield from self._through(item, others)
            return
        found = window.look(item)
        yield
        for each in found:
            yield from self._through(each, others)


def _agree(one: Values, other: Values) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())


# EXPLAIN CONFLICTS: the conflicts between the dataflow expressions of a query that run
# concurrently, and their removal.

STEPS: tuple[tuple[Removal, ...], ...] = (
    (),
    (Removal.TIMESTAMPS,),
    (Removal.TIMESTAMPS, Removal.CONTAINERS),
    (Removal.TIMESTAMPS, Removal.CONTAINERS, Removal.ORDER),
)
_RAISED = (Removal.TIMESTAMPS, Removal.RAISED, Removal.ORDER)  # containers are kept


def explain_conflicts(query: QueryPlan, settings: Settings) -> str:
    return "\n".join(_lines(query, settings))


def conflicts_of(
    node: Node, settings: Settings, containers: bool = True, margin: float | None = None
) -> Conflicts:
    """Conflicts between the expressions of a query: with containers where they pay, by some
    margin, or without any.
    """
    least = margin_of(None) if margin is None else margin

    def arrange(join: Join) -> Joined:
        return chosen(join, settings, margin=least) if containers else flat(len(join.branches))

    return Conflicts(translate(node, arrange).expressions)


def schedule(conflicts: Conflicts, removed: Collection[Removal] = ()) -> SchedulingGraph:
    """Scheduling graph for an item of every stream, and one more of the first."""
    graph = SchedulingGraph(conflicts, removed)
    streams = [each.stream for each in conflicts.expressions]
    for stream in dict.fromkeys(streams):
        graph.arrive(stream, f"d'_{stream}")
    graph.arrive(streams[0], f"d''_{streams[0]}")
    return graph


def _lines(query: QueryPlan, settings: Settings) -> Iterator[str]:
    conflicts = conflicts_of(query.input, settings)
    yield "Conflicts"
    for number, operation in enumerate(conflicts.operations, 1):
        yield f"  α{number} = {operation}"
    for each in conflicts.expressions:
        numbers = ", ".join(f"α{conflicts.number(one) + 1}" for one in each.operations)
        yield f"  δ_{each.stream} : {numbers}"
    yield from (f"  {line}" for line in shown_matrix(conflicts.matrix()))
    yield from _removals(conflicts)
    yield from _schedules(query, settings, conflicts)
    reasons = order_matters(query.input)
    yield f"Order invariant: {'no, ' + '; '.join(reasons) if reasons else 'yes'}"
    yield _asked(query.consistency) + _containers(query, settings, conflicts)


def _removals(conflicts: Conflicts) -> Iterator[str]:
    count = Counter(each.removed_by for each in conflicts.found)
    yield f"{len(conflicts.found)} conflicts, removed by"
    for removal, what in (
        (Removal.TIMESTAMPS, "timestamps: items read only what came before them"),
        (
            Removal.CONTAINERS,
            f"dropped containers, or raised timestamps: {', '.join(sorted(conflicts.containers))}",
        ),
        (Removal.ORDER, "relaxed order: the output is not read before the end"),
    ):
        if count[removal]:
            yield f"  {count[removal]} by {what}"


def _schedules(query: QueryPlan, settings: Settings, conflicts: Conflicts) -> Iterator[str]:
    """Waiting edges and rounds for an item of every stream, and one more of the first."""
    yield "Schedule of an item of every stream, and one more of the first"
    # an item that is put behind others must give the same results there
    raised = conflicts.containers and not order_matters(query.input)
    for removed in (*STEPS, _RAISED) if raised else STEPS:
        given = conflicts
        if Removal.CONTAINERS in removed:
            given = conflicts_of(query.input, settings, containers=False)
        graph = schedule(given, removed)
        dashed = len(graph.dashed)
        names = ", ".join(each.value for each in removed) or "nothing removed"
        rounds = graph.rounds()
        yield f"  {names}: {dashed} dashed edge{'s' * (dashed != 1)}, {rounds} rounds"


def _asked(consistency: Consistency | None) -> str:
    if consistency is None:
        return "CONSISTENCY is not said: tuples are handled batch by batch"
    if consistency.at_most is None:
        return f"{consistency}: order is relaxed, rows agree at the end"
    return f"{consistency}: the output is recorded in the order of items"


def _containers(query: QueryPlan, settings: Settings, conflicts: Conflicts) -> str:
    """Decision about containers where a CONSISTENCY is given and there would be any."""
    if query.consistency is None or not conflicts.containers:
        return ""
    kept = conflicts_of(query.input, settings, margin=margin_of(query.consistency)).containers
    names = ", ".join(sorted(kept or conflicts.containers))
    return f"; {names} {'kept, which pays more than threads' if kept else 'not kept'}"
