"""Connected components of the query graph and the cycle that works on them: execute an operator,
select the next one by its rule.  With the memory policy (Chain), the groups of components that
threads work on, and the enabling timestamps (ETS) that idle sources make."""

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
    """The operators of a path from `begin` to before `end`, and by how many rows they shrink a row
    per nanosecond spent in them."""

    begin: int
    end: int
    slope: float


def segments(path: Sequence[tuple[float, float]]) -> list[Segment]:
    """Cut a path into segments, as Chain does: the operators under one line of the lower envelope.

    The progress chart of a path says how much of a row is left after how much time in its
    operators.  The lower envelope of the chart is made of straight lines, each as steep as can be;
    the operators under one of them are a segment.  A path is given by the time per row and the
    selectivity of each operator; behind the last one, rows leave.

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
    """Slope of a line of the progress chart, positive downwards; an operator without a cost counts
    as a very cheap one."""
    return (begin[1] - end[1]) / max(end[0] - begin[0], 1e-9)


# The memory policy: when many rows wait, the segments run first in which rows become fewer fastest.
#
# Chain (Babcock and others, 2003) runs the steepest segment that has rows waiting, which keeps less
# in buffers than any order that knows no more.  A segment ends in a virtual break node.  As long as
# few rows wait, there are none, and the graph is worked on depth first.

_UNKNOWN = (1_000.0, 1.0)  # nanoseconds and selectivity of an operator that has seen nothing


class MemoryPolicy:
    """Chain for a component of the graph.  `arrange` gives nodes the rules for their places."""

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
        """Break the component into segments when too many rows wait, and undo that when few do."""
        crowded = self._waiting() > self.limit
        if crowded and not self.active:
            self._break_up()
        elif self.active and not crowded:
            self.mend()

    def steepest(self, busy: Iterable[GraphNode]) -> GraphNode | None:
        """Choose a node in the steepest segment among those that have something to do."""
        able = [node for node in busy if node.more]
        return max(able, key=lambda node: self._slopes.get(node, 0.0), default=None)

    def mend(self) -> None:
        """Remove the virtual break nodes."""
        self.active = False
        self._end_behind(set())

    def _waiting(self) -> int:
        """Number of rows that wait in buffers and inboxes."""
        return sum(
            node.output.rows + (node.rows_delivered if isinstance(node, SourceNode) else 0)
            for node in self._nodes
        )

    def _break_up(self) -> None:
        """Break paths into segments by the times and selectivities measured so far.  A node of
        several paths counts as in the steepest of them."""
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
    """Yield all paths from a source to a sink."""
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


# The two-step cycle: execute the current operator, and select the next one by its rule (NOS).

_FORWARD, _ENCORE, _EXIT = Move.FORWARD, Move.ENCORE, Move.EXIT


class Cycle:
    """The two-step cycle.  `executed` is called after every execution, for measurements and
    simulations.  `ask` is called when backtracking has led to a source, and returns whether that
    made a new enabling timestamp (ETS)."""

    def __init__(self, executed: Callable[[GraphNode], None] | None = None) -> None:
        self.executed = executed
        self.interrupted = False  # whether a request is to be handled between two steps
        self.current: GraphNode | None = None  # the one at work, to tell what has failed
        self.failed: GraphNode | None = None  # where a branch begins in which something has failed
        self.ask: Callable[[GraphNode], bool] | None = None

    def run(self, node: GraphNode) -> GraphNode:
        """Work from a node that has something to do until a rule exits, and return the node where
        that was."""
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


# Connected components of the graph, the units of the scheduler: each has a share of the time.


class Component:
    """A connected component of the graph.  `share` is how much of the time it gets, relative to
    others; `used` the nanoseconds it has had, divided by its share: the one that has had least
    comes next."""

    def __init__(self, nodes: Sequence[GraphNode], cycle: Cycle, used: float = 0.0) -> None:
        self.memory: MemoryPolicy | None = None  # if it decides what runs first
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
        self.add_nodes(nodes)

    def join(self, group: int, cycle: Cycle) -> None:
        """Move to a group, whose thread works on the component from now on."""
        self.group, self._cycle = group, cycle

    def add_nodes(self, nodes: Sequence[GraphNode]) -> None:
        """Add nodes that are connected with the component."""
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

    def remove_nodes(self, operators: Sequence[OperatorNode]) -> None:
        """Remove nodes that are gone; the others are still connected."""
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
        """List a node that has something to do."""
        node.listed = True
        self._busy.append(node)

    def failed_in(self, branch: GraphNode) -> None:
        """Note the branch in which a handed-over batch failed.  The call nearest to the failure
        comes first, and is the one that counts."""
        if self._cycle.failed is None:
            self._cycle.failed = branch

    @property
    def busy(self) -> bool:
        return self._pick() is not None or any(s.next_alone is not None for s in self.sources)

    def drain(self) -> None:
        """Work until nothing waits in the component, or the cycle is interrupted."""
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
        """Let in the oldest tuple that waited for everything before it to be handled, and return
        its source."""
        waiting = [(s.next_alone, s) for s in self.sources if s.next_alone is not None]
        if not waiting:
            return None
        _, source = min(waiting, key=itemgetter(0))
        source.let_in_one()
        return source

    def _pick(self) -> GraphNode | None:
        """Choose a node that has something to do.  Nodes whose progress waits for earlier tuples
        come after those that hold these tuples."""
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
        """Whether a source may be silent."""
        return bool(self._live)

    def flush(self) -> None:
        """Flush the outlets of live sources, so that results are seen while the streams go on."""
        for source in self._live:
            for outlet in source.outlets:
                outlet.flush()

    @property
    def waits_for_progress(self) -> bool:
        """Whether an operator keeps something that only progress can release."""
        return any(node.holds for node in self._sensitive)

    @property
    def waiting_idly(self) -> list[OperatorNode]:
        """Operators that wait idly: rows could leave, if only progress came."""
        return [node for node in self._sensitive if node.waits_idly] if self._live else []

    @property
    def released(self) -> int:
        """Number of rows that progress-sensitive operators have emitted."""
        return sum(node.measured.flow.rows_out for node in self._sensitive)


# All components of a graph, as queries come and go, and the groups that they belong to.
#
# A component is in one group, and a group is worked on by one thread at a time, so no component
# sees another at work, however many threads there are.

Arrange = Callable[[Sequence[GraphNode]], None]


class Components:
    """The components of a graph.  `arrange` gives nodes the rules for their places; there is a
    cycle for every group."""

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
            self.set_memory_limits()
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
        """Invalidate the components: they are computed again when they are next asked for."""
        self._changed = True

    def connect(self, placed: PlacedQuery, new: list[OperatorNode]) -> None:
        """Add the nodes of a query.  A query over one stream that others read belongs to their
        component; otherwise components may have become one."""
        component = placed.sources[0].component
        if self._changed or len(placed.sources) > 1 or component is None:
            self._changed = True
            return
        component.add_nodes(new)
        producers = [each for node in new for each in node.predecessors]
        self._arrange(list(dict.fromkeys((*new, *producers))))
        self._give(placed)

    def disconnect(self, placed: PlacedQuery, gone: list[OperatorNode]) -> None:
        """Remove the nodes of a query.  Without a query over one stream, all others are connected
        as before."""
        (source, *others), usual = placed.sources, placed.share == 1 and placed.enabling is None
        if self._changed or others or not source.is_wanted or not usual:
            self._changed = True
            return
        assert source.component is not None
        source.component.remove_nodes(gone)
        producers = {each: None for node in gone for each in node.predecessors}
        self._arrange([each for each in producers if each not in gone])

    def _give(self, placed: PlacedQuery) -> None:
        component = self.of(placed.sources[0])
        component.share = max(component.share or 0.0, placed.share)
        component.enabling = placed.enabling or component.enabling

    def set_memory_limits(self) -> None:
        """Set the memory policy of components whose nodes have a limit."""
        for each in self._found:
            limits = [n.memory_limit for n in each.nodes if n.memory_limit is not None]
            if each.memory is not None:
                each.memory.mend()
            each.memory = MemoryPolicy(each.nodes, min(limits), self._arrange) if limits else None

    # --- groups ----------------------------------------------------------------------------------

    def _group(self, before: Sequence[int | None]) -> None:
        """Assign groups.  Components stay in the group that they were in, new ones go to the
        smallest, and where one group has become much smaller than another, some move.  The first
        group is filled last: its thread has more to do."""
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
    """Connected components of the nodes, in the order of their first nodes."""
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


# Enabling timestamps (ETS) of idle sources.
#
# On demand: a source is empty, and an operator behind it holds rows that only progress releases.
# The source makes a timestamp when backtracking from such an operator leads to it, or when nothing
# is left to do; and again as long as that lets tuples through.  Otherwise periodically, or never.

_SOON, _SELDOM = 1_000, 1_000_000  # microseconds between two looks at what waits for the clock


class EnablingMode:
    """Decides when the sources of components make enabling timestamps (ETS), and when to look at
    the clock for that."""

    def __init__(self, mode: Enabling, clock: Clock) -> None:
        self._mode = mode
        self._clock = clock
        self._pause = _SOON
        self._next: dict[int, int] = {}  # periodic timestamp, by the time between two
        # the rows that had been released when a source was asked
        self._asked: WeakKeyDictionary[SourceNode, int] = WeakKeyDictionary()

    def stir(self) -> None:
        """Reset the back-off, because rows have come."""
        self._pause = _SOON

    # --- when backtracking has led to a source ---------------------------------------------------

    def ask(self, node: GraphNode) -> bool:
        """Make an enabling timestamp for an empty source while rows wait idly; not again if the
        last one released nothing."""
        component = node.component
        if not isinstance(node, SourceNode) or component is None or not component.is_live:
            return False
        if not self._mode_of(component).on_demand:
            return False
        if not node.is_empty or not node.ingest.can_enable or not component.waiting_idly:
            return False
        if _idle_sources(component)[0] is not node:
            return False  # rows wait for another source, which is asked when nothing is left to do
        released = component.released
        if self._asked.get(node) == released:
            return False
        self._asked[node] = released
        node.enable()
        return True

    # --- after each step -------------------------------------------------------------------------

    def after(self, component: Component) -> None:
        """Make enabling timestamps on demand, when nothing waits in a component any more."""
        if self._mode_of(component).on_demand and component.is_live:
            self._demand(component)

    def _demand(self, component: Component) -> None:
        while (sources := _idle_sources(component)) and component.waits_for_progress:
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
        """Next wake-up time, or None: the next silence that raises a bound; after a pause, if the
        clock may release something; the next periodic timestamp."""
        if not any(_depends_on_clock(each) for each in components):
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
            if every is not None and _idle_sources(component):
                if self._next.get(every, 0) <= now - every:
                    self._next[every] = now + every
                times.append(self._next[every])
        return min(times, default=None)

    def look(self, components: Sequence[Component]) -> None:
        """Handle the time that has passed.  Poll waiting operators with exponential back-off."""
        self._pause = min(2 * self._pause, _SELDOM)
        due = self._now_due()
        for component in components:
            mode = self._mode_of(component)
            for source in component.sources:
                if source.ingest.due() is not None:
                    source.fall_silent()
                if mode.every in due and source in _idle_sources(component):
                    source.enable()
            component.drain()
            if mode.on_demand:
                self._demand(component)

    def _now_due(self) -> set[int]:
        """Periods whose next timestamp is due; advance them."""
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
        return silent or (self._mode_of(component).on_demand and bool(_idle_sources(component)))


def _depends_on_clock(component: Component) -> bool:
    ingests = [source.ingest for source in component.sources]
    return any(ingest.can_enable or ingest.due() is not None for ingest in ingests)


def _idle_sources(component: Component) -> list[SourceNode]:
    """Empty sources that can make an enabling timestamp, the slowest first."""
    found = [each for each in component.sources if each.ingest.can_enable and each.is_empty]
    return sorted(found, key=lambda source: source.ingest.low)


# Groups of components.


class Group:
    """The components that one thread at a time works on, with their cycle and enabling
    timestamps."""

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
        """Components whose queries are not paused."""
        return [each for each in self.components if not each.held]

    def has(self, component: Component | None) -> bool:
        return component is None or component.group == self.number
