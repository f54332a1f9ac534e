"""Segments of a path of operators, as Chain has them: where rows become fewer fastest comes first.

The progress chart of a path says how much of a row is left after how much time in its operators.
The lower envelope of the chart is made of straight lines, each as steep as can be; the operators
under one of them are a segment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from penstock.local.graph.node import GraphNode
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.graph.source_node import SourceNode
from penstock.local.graph.topology import PlacedQuery, Topology
from penstock.local.graph_options import Enabling
from penstock.local.strategies import Move
from penstock.model.clock import Clock

if TYPE_CHECKING:
    from penstock.runs.adaptation import Watched


@dataclass(frozen=True, slots=True)
class Segment:
    """The operators of a path from `begin` to before `end`, and how many rows fewer there are for
    every nanosecond in them."""

    begin: int
    end: int
    slope: float


def segments(path: Sequence[tuple[float, float]]) -> list[Segment]:
    """By the time per row and the selectivity of each operator; behind the last one, rows leave.

    A cheap filter that lets half of the rows pass, a slow function, and a filter that lets few of
    them pass: the function belongs to the filter behind it.

    >>> [(each.begin, each.end) for each in segments([(1, 0.5), (8, 1), (1, 0.01), (50, 1)])]
    [(0, 1), (1, 3), (3, 4)]
    """
    sizes = [1.0, *accumulate((selectivity for _, selectivity in path), lambda a, b: a * b)]
    spent = [size * time for size, (time, _) in zip(sizes, path, strict=False)]
    times = [0.0, *accumulate(spent)]
    sizes[-1] = 0.0
    points = list(zip(times, sizes, strict=True))
    cuts = [0]
    while cuts[-1] < len(path):
        begin = cuts[-1]
        ends = range(begin + 1, len(points))
        cuts.append(max(ends, key=lambda end: (_slope(points[begin], points[end]), end)))
    return [Segment(a, b, _slope(points[a], points[b])) for a, b in pairwise(cuts)]


def _slope(begin: tuple[float, float], end: tuple[float, float]) -> float:
    """How much steeper down it goes than level; an operator without a cost has the least one."""
    return (begin[1] - end[1]) / max(end[0] - begin[0], 1e-9)


# Break nodes that follow from memory: when many rows wait, those go on first that become fewer.
#
# Chain (Babcock and others, 2003) runs the steepest segment that has rows waiting, which keeps less
# in buffers than any order that knows no more.  A segment ends in a virtual break node.  As long as
# few rows wait, there are none, and the graph is worked on depth first.

_UNKNOWN = (1_000.0, 1.0)  # nanoseconds and selectivity of an operator that has seen nothing


class MemoryPolicy:
    """Of a connected part of the graph.  `arrange` gives nodes the rules for where they stand."""

    def __init__(
        self,
        nodes: Sequence[GraphNode],
        limit: int,
        arrange: Callable[[Sequence[GraphNode]], None],
    ) -> None:
        self.limit = limit  # rows that may wait
        self._nodes = nodes
        self._arrange = arrange
        self._slopes: dict[GraphNode, float] = {}  # of the segments that nodes are in
        self.active = False

    def look(self) -> None:
        """Whether so many rows wait that it matters who comes first."""
        crowded = self._waiting() > self.limit
        if crowded and not self.active:
            self._break_up()
        elif self.active and not crowded:
            self.mend()

    def steepest(self, busy: Iterable[GraphNode]) -> GraphNode | None:
        """Of those that have something to do, one in the steepest segment."""
        able = [node for node in busy if node.more]
        return max(able, key=lambda node: self._slopes.get(node, 0.0), default=None)

    def mend(self) -> None:
        """No break nodes any more."""
        self.active = False
        self._end_behind(set())

    def _waiting(self) -> int:
        """Rows that have come, and wait somewhere."""
        return sum(
            node.output.rows + (node.rows_delivered if isinstance(node, SourceNode) else 0)
            for node in self._nodes
        )

    def _break_up(self) -> None:
        """As what has been measured so far suggests.  A node of several paths counts as it does in
        the steepest of them."""
        self.active, self._slopes = True, {}
        ends: set[GraphNode] = set()
        for path in _paths(self._nodes):
            for segment in segments([_measured(node) for node in path]):
                for node in path[segment.begin : segment.end]:
                    known = self._slopes.get(node, 0.0)
                    self._slopes[node] = max(known, segment.slope)
                ends.add(path[segment.end - 1])
        self._end_behind({node for node in ends if node.memory_limit is not None})

    def _end_behind(self, ends: set[GraphNode]) -> None:
        for node in self._nodes:
            node.ends_segment = node in ends
        self._arrange(self._nodes)


def _paths(nodes: Sequence[GraphNode]) -> Iterator[list[GraphNode]]:
    """All ways from a source to a sink."""
    for source in nodes:
        if isinstance(source, SourceNode):
            waiting: list[list[GraphNode]] = [[source]]
            while waiting:
                path = waiting.pop()
                behind = path[-1].successors
                if not behind:
                    yield path
                waiting += [[*path, each] for each in dict.fromkeys(behind)]


def _measured(node: GraphNode) -> tuple[float, float]:
    """Nanoseconds per row, and rows out per row in."""
    assert isinstance(node, SourceNode | OperatorNode)
    flow = node.flow if isinstance(node, SourceNode) else node.measured.flow
    if not flow.rows_in:
        return _UNKNOWN
    return flow.nanoseconds / flow.rows_in, flow.rows_out / flow.rows_in


# The two-step cycle: execute the current operator, and select the next one by its rule.

_FORWARD, _ENCORE, _EXIT = Move.FORWARD, Move.ENCORE, Move.EXIT


class Cycle:
    """`executed` is told of every execution, for whoever measures or simulates.  `ask` is where a
    source is asked for an enabling timestamp when going back has led to it; whether there was a new
    one."""

    def __init__(self, executed: Callable[[GraphNode], None] | None = None) -> None:
        self.executed = executed
        self.interrupted = False  # whether somebody wants to have something done between two steps
        self.current: GraphNode | None = None  # the one at work, for whoever asks what has failed
        self.failed: GraphNode | None = None  # where a branch begins in which something has failed
        self.ask: Callable[[GraphNode], bool] | None = None

    def run(self, node: GraphNode) -> GraphNode:
        """From a node that has something to do until a rule says that there is nothing left on the
        way; the node where that was."""
        handled = 0
        while True:
            self.current = node
            handled += node.execute()
            if self.executed is not None:
                self.executed(node)
            if self.interrupted:
                self.current = None
                return node
            while True:
                move = node.rule(node, handled >= node.step)
                if move is _ENCORE:
                    break
                if move is _EXIT:
                    if self.ask is None or not self.ask(node) or not node.yields:
                        self.current = None
                        return node
                    move = _FORWARD
                handled = 0
                if move is _FORWARD:
                    node = node.forward()
                    break
                node = node.backward()


# A connected part of the graph, which is a unit for the scheduler: it has a share of the time.


class Component:
    """`share` is how much of the time it gets, relative to others; `used` what it has had, in
    nanoseconds by its share: who has had least comes next."""

    def __init__(self, nodes: Sequence[GraphNode], cycle: Cycle, used: float = 0.0) -> None:
        self.memory: MemoryPolicy | None = None  # if it decides who comes first
        self.nodes: list[GraphNode] = []
        self.sources: list[SourceNode] = []
        self._live: list[SourceNode] = []
        self._sensitive: list[OperatorNode] = []
        self.watched: list[Watched] = []  # operators that may be exchanged
        self.share = 0.0  # the largest of its queries
        self.enabling: Enabling | None = None  # if another than that of the run
        self.used = used
        self.group = 0
        self._cycle = cycle
        self._busy: deque[GraphNode] = deque()
        self.take_in(nodes)

    def join(self, group: int, cycle: Cycle) -> None:
        """From now on, it is worked on together with others."""
        self.group, self._cycle = group, cycle

    def take_in(self, nodes: Sequence[GraphNode]) -> None:
        """Nodes that are connected with it."""
        self.nodes += nodes
        sources = [node for node in nodes if isinstance(node, SourceNode)]
        self.sources += sources
        self._live += [source for source in sources if source.ingest.live]
        operators = [node for node in nodes if isinstance(node, OperatorNode)]
        self._sensitive += [node for node in operators if node.sensitive]
        self.watched += [node.watched for node in operators if node.watched is not None]
        for node in nodes:
            node.component, node.listed = self, False
            if node.more or node.blocked:
                self.add(node)

    def let_go(self, operators: Sequence[OperatorNode]) -> None:
        """Nodes that are gone; the others are still connected."""
        for node in operators:
            self.nodes.remove(node)
            if node.sensitive:
                self._sensitive.remove(node)
            if node.watched is not None:
                self.watched.remove(node.watched)
            if node.listed:
                self._busy.remove(node)
            node.component = None

    def add(self, node: GraphNode) -> None:
        """There is something to do for a node."""
        node.listed = True
        self._busy.append(node)

    def failed_in(self, branch: GraphNode) -> None:
        """What was handed over to a branch has failed there, or behind it: whoever is nearest to
        where that was has told first."""
        if self._cycle.failed is None:
            self._cycle.failed = branch

    @property
    def busy(self) -> bool:
        return self._pick() is not None or any(s.next_alone is not None for s in self.sources)

    def drain(self) -> None:
        """Until nothing waits anywhere, or somebody interrupts it."""
        memory = self.memory
        if memory is not None:
            memory.look()
        while (node := self._pick() or self._next_alone()) is not None:
            self._cycle.run(node)
            if self._cycle.interrupted:
                return
            if memory is not None:
                memory.look()

    def _next_alone(self) -> SourceNode | None:
        """A source with a tuple that waited for everything before it to be handled."""
        waiting = [(s.next_alone, s) for s in self.sources if s.next_alone is not None]
        if not waiting:
            return None
        _, source = min(waiting, key=itemgetter(0))
        source.let_in_one()
        return source

    def _pick(self) -> GraphNode | None:
        """A node that has something to do.  Where progress waits for tuples before it, whoever has
        those comes first."""
        busy, blocked = self._busy, 0
        if self.memory is not None and self.memory.active:
            steepest = self.memory.steepest(busy)
            if steepest is not None:
                return steepest
        while busy and blocked < len(busy):
            node = busy[0]
            if node.more:
                return node
            if node.blocked:
                busy.rotate(-1)
                blocked += 1
            else:
                busy.popleft().listed = False
        return None

    @property
    def held(self) -> bool:
        """Whether its queries are paused, or wait for subscribers."""
        return any(source.waits for source in self.sources)

    @property
    def is_live(self) -> bool:
        """Whether a source may fall silent."""
        return bool(self._live)

    def flush(self) -> None:
        """Let those see what has left who look at it while a stream goes on."""
        for source in self._live:
            for outlet in source.outlets:
                outlet.flush()

    @property
    def waits_for_progress(self) -> bool:
        """Whether an operator holds something that only progress can release."""
        return any(node.holds for node in self._sensitive)

    @property
    def waiting_idly(self) -> list[OperatorNode]:
        """Operators with rows that could leave, if only progress came."""
        return [node for node in self._sensitive if node.waits_idly] if self._live else []

    @property
    def released(self) -> int:
        """Rows that have left such operators."""
        return sum(node.measured.flow.rows_out for node in self._sensitive)


# The connected parts of a graph, as queries come and go, and the groups that they belong to.
#
# Whatever is connected is in one group, and a group is worked on by one thread at a time: so
# nothing that one part does can be seen by another, however many threads there are.

Arrange = Callable[[Sequence[GraphNode]], None]


class Components:
    """`arrange` gives nodes the rules for where they stand; there is a cycle for every group."""

    def __init__(self, topology: Topology, arrange: Arrange, groups: int = 1) -> None:
        self.cycles = [Cycle() for _ in range(groups)]
        self._topology = topology
        self._arrange = arrange
        self._found: list[Component] = []
        self._changed = True  # the topology, since they were found

    def all(self) -> list[Component]:
        if self._changed:
            self._changed = False
            used = min((each.used for each in self._found), default=0.0)
            nodes = self._topology.nodes
            self._arrange(nodes)
            parts = connected(nodes)
            groups = [_group_before(part) for part in parts]
            self._found = [Component(part, self.cycles[0], used=used) for part in parts]
            self._group(groups)
            self.mind_memory()
            for placed in self._topology.queries.values():
                self._give(placed)
        return self._found

    def of(self, node: GraphNode) -> Component:
        if self._changed or node.component is None:
            return next(each for each in self.all() if node in each.nodes)
        return node.component

    def in_group(self, number: int) -> list[Component]:
        if len(self.cycles) == 1:
            return self.all()
        return [each for each in self.all() if each.group == number]

    def change(self) -> None:
        """They are to be found anew."""
        self._changed = True

    def connect(self, placed: PlacedQuery, new: list[OperatorNode]) -> None:
        """A query over one stream that others read belongs to their part of the graph; otherwise
        parts may have become one."""
        component = placed.sources[0].component
        if self._changed or len(placed.sources) > 1 or component is None:
            self._changed = True
            return
        component.take_in(new)
        producers = [each for node in new for each in node.predecessors]
        self._arrange(list(dict.fromkeys((*new, *producers))))
        self._give(placed)

    def disconnect(self, placed: PlacedQuery, gone: list[OperatorNode]) -> None:
        """Without a query over one stream, all others are connected as before."""
        (source, *others), usual = placed.sources, placed.share == 1 and placed.enabling is None
        if self._changed or others or not source.is_wanted or not usual:
            self._changed = True
            return
        assert source.component is not None
        source.component.let_go(gone)
        producers = {each: None for node in gone for each in node.predecessors}
        self._arrange([each for each in producers if each not in gone])

    def _give(self, placed: PlacedQuery) -> None:
        component = self.of(placed.sources[0])
        component.share = max(component.share or 0.0, placed.share)
        component.enabling = placed.enabling or component.enabling

    def mind_memory(self) -> None:
        """Where a strategy says so."""
        for each in self._found:
            limits = [n.memory_limit for n in each.nodes if n.memory_limit is not None]
            if each.memory is not None:
                each.memory.mend()
            each.memory = MemoryPolicy(each.nodes, min(limits), self._arrange) if limits else None

    # --- groups ----------------------------------------------------------------------------------

    def _group(self, before: Sequence[int | None]) -> None:
        """Parts stay in the group that they were in, new ones go to the smallest, and where one has
        become much smaller than another, some move.  The first comes last: its thread has more to
        do."""
        sizes = [0] * len(self.cycles)
        newcomers = []
        for component, group in zip(self._found, before, strict=True):
            if group is None:
                newcomers.append(component)
            else:
                component.join(group, self.cycles[group])
                sizes[group] += 1
        for component in newcomers:
            self._join(component, _smallest(sizes), sizes)
        while max(sizes) - min(sizes) > 1:
            large = sizes.index(max(sizes))
            moving = next(each for each in reversed(self._found) if each.group == large)
            sizes[large] -= 1
            self._join(moving, _smallest(sizes), sizes)

    def _join(self, component: Component, group: int, sizes: list[int]) -> None:
        component.join(group, self.cycles[group])
        sizes[group] += 1


def _smallest(sizes: Sequence[int]) -> int:
    return min(range(len(sizes)), key=lambda group: (sizes[group], -group))


def _group_before(part: Sequence[GraphNode]) -> int | None:
    return next((node.component.group for node in part if node.component is not None), None)


def connected(nodes: Sequence[GraphNode]) -> list[list[GraphNode]]:
    """The nodes by connected part, in the order of their first ones."""
    part_of: dict[GraphNode, int] = {}
    parts: list[list[GraphNode]] = []
    for first in nodes:
        if first in part_of:
            continue
        part, waiting = [first], [first]
        part_of[first] = len(parts)
        while waiting:
            node = waiting.pop()
            for other in (*node.predecessors, *node.successors):
                if other not in part_of:
                    part_of[other] = len(parts)
                    part.append(other)
                    waiting.append(other)
        parts.append(part)
    return parts


# When sources that have nothing to say are asked how far they have come.
#
# On demand: a source is empty, and an operator behind it holds rows that only progress releases.
# It is asked when going back from such an operator has led to it, or when nothing is left to do;
# and again as long as that lets tuples through.  Otherwise every so often, or never.

_SOON, _SELDOM = 1_000, 1_000_000  # microseconds between two looks at what waits for the clock


class EnablingMode:
    """What is asked of the components of a run, and when to look at the clock for it."""

    def __init__(self, mode: Enabling, clock: Clock) -> None:
        self._mode = mode
        self._clock = clock
        self._pause = _SOON
        self._next: dict[int, int] = {}  # periodic timestamp, by the time between two
        # the rows that had been released when a source was asked
        self._asked: WeakKeyDictionary[SourceNode, int] = WeakKeyDictionary()

    def stir(self) -> None:
        """Something has come: who waits for the clock now may not have to wait for long."""
        self._pause = _SOON

    # --- when going back has led to a source -----------------------------------------------------

    def ask(self, node: GraphNode) -> bool:
        """If it has nothing to say and rows wait idly; not again if that has helped nobody."""
        component = node.component
        if not isinstance(node, SourceNode) or component is None or not component.is_live:
            return False
        if not self._mode_of(component).on_demand:
            return False
        if not node.is_empty or not node.ingest.can_enable or not component.waiting_idly:
            return False
        if _empty(component)[0] is not node:
            return False  # rows wait for another one, who is asked when nothing is left to do
        released = component.released
        if self._asked.get(node) == released:
            return False
        self._asked[node] = released
        node.enable()
        return True

    # --- after each step -------------------------------------------------------------------------

    def after(self, component: Component) -> None:
        """Nothing waits in a component any more."""
        if self._mode_of(component).on_demand and component.is_live:
            self._demand(component)

    def _demand(self, component: Component) -> None:
        while (sources := _empty(component)) and component.waits_for_progress:
            released = component.released
            for source in sources:
                source.enable()
                component.drain()
                if not component.waits_for_progress:
                    return
            if component.released == released:
                return

    # --- when nothing happens --------------------------------------------------------------------

    def due(self, components: Sequence[Component]) -> int | None:
        """When to look again: at the time of the next silence that means something; after a while
        if the clock may let something through; when it is time for a periodic timestamp."""
        if not any(_minds_the_clock(each) for each in components):
            return None
        now = self._clock.now()
        times: list[int] = []
        for component in components:
            for source in component.sources:
                silence = source.ingest.due()
                if silence is not None and silence > now:
                    times.append(silence)
            if self._moves_on(component) and component.waits_for_progress:
                times.append(now + self._pause)
            every = self._mode_of(component).every
            if every is not None and _empty(component):
                if self._next.get(every, 0) <= now - every:
                    self._next[every] = now + every
                times.append(self._next[every])
        return min(times, default=None)

    def look(self, components: Sequence[Component]) -> None:
        """It is time.  Whoever still waits is looked at less and less often."""
        self._pause = min(2 * self._pause, _SELDOM)
        due = self._now_due()
        for component in components:
            mode = self._mode_of(component)
            for source in component.sources:
                if source.ingest.due() is not None:
                    source.fall_silent()
                if mode.every in due and source in _empty(component):
                    source.enable()
            component.drain()
            if mode.on_demand:
                self._demand(component)

    def _now_due(self) -> set[int]:
        """The times between two timestamps that have passed."""
        now = self._clock.now()
        due = {every for every, at in self._next.items() if at <= now}
        for every in due:
            self._next[every] += every
        return due

    def _mode_of(self, component: Component) -> Enabling:
        return component.enabling or self._mode

    def _moves_on(self, component: Component) -> bool:
        """Whether the clock alone may raise a bound."""
        now = self._clock.now()
        silences = [source.ingest.due() for source in component.sources]
        silent = any(due is not None and due <= now for due in silences)
        return silent or (self._mode_of(component).on_demand and bool(_empty(component)))


def _minds_the_clock(component: Component) -> bool:
    ingests = [source.ingest for source in component.sources]
    return any(ingest.can_enable or ingest.due() is not None for ingest in ingests)


def _empty(component: Component) -> list[SourceNode]:
    """Sources without anything to say that can promise something, the slowest first."""
    found = [each for each in component.sources if each.ingest.can_enable and each.is_empty]
    return sorted(found, key=lambda source: source.ingest.low)


# The parts of a graph that are worked on by one thread at a time.


class Group:
    def __init__(self, number: int, parts: Components, mode: Enabling, clock: Clock) -> None:
        self.number = number
        self.cycle = parts.cycles[number]
        self.enabling = EnablingMode(mode, clock)
        self.cycle.ask = self.enabling.ask
        self._parts = parts

    @property
    def components(self) -> list[Component]:
        return self._parts.in_group(self.number)

    @property
    def awake(self) -> list[Component]:
        """Those whose queries are not paused."""
        return [each for each in self.components if not each.held]

    def has(self, component: Component | None) -> bool:
        return component is None or component.group == self.number
