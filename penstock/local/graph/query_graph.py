"""The query graph: the scans that queries share, the nodes that equal parts of plans become, and
how queries are added, dropped and exchanged while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from penstock.errors import EngineError
from penstock.io.sources.files import FileSource
from penstock.io.sources.one_reading import REPLAYABLE
from penstock.io.sources.rejects import RejectLog
from penstock.io.sources.source import LiveSource, can_be_read_again, is_read_alone
from penstock.kernel.build import operator_for
from penstock.kernel.progress.ingest import Ingest
from penstock.kernel.windows.pane_windows import WindowsOfPanesOperator
from penstock.kernel.windows.shared_panes import SharedPanesOperator
from penstock.local.graph.node import Exit, GraphNode
from penstock.local.graph.operator_node import OperatorNode, node_for
from penstock.local.graph.source_node import Reading, SourceNode, keeps_for_others, meetings_at
from penstock.local.graph.topology import PlacedQuery, Placement, Topology, name_of
from penstock.local.graph_options import Carriage, Enabling, Scheduling
from penstock.local.scheduling.components import Component, Components
from penstock.local.strategies import Arrangement, StateTable, Strategy, state_table
from penstock.model.clock import Clock
from penstock.optimizer.sharing import check_can_be_read_in_turn, read_in_turn
from penstock.plan.nodes.node import Node, Scan
from penstock.plan.physical import OperatorKind, PhysicalNode, PhysicalPlan
from penstock.plan.properties import scans_of
from penstock.plan.streams import StreamDefinition
from penstock.runs.answer import Outlet

if TYPE_CHECKING:
    from penstock.runs.adaptation import Watched


class Scans:
    """Shares one scan of a stream among all its queries.  A query that comes after the scan has
    begun gets its own if the stream can be read again, and otherwise what follows.  Only a query
    that counts rows as they come gets one scan for each time that it names the stream, read one
    after the other, as the definition says."""

    def __init__(self, clock: Clock, strict: bool, resumable: bool, follow: bool) -> None:
        self._clock = clock
        self._strict = strict
        self._resumable = resumable
        self._follow = follow
        self._made: dict[tuple[int, int, bool], SourceNode] = {}
        self._saved: dict[str, SourceNode] = {}  # those that were there before, by name

    def check(self, stream: StreamDefinition, lasting: bool) -> None:
        """Check that one more query can read a stream: another reading would take rows away from
        one that is under way, and rows which that has delivered already are not remembered."""
        if not is_read_alone(stream.source):
            return
        known = self._made.get((id(stream), 0, False))
        if known is None or known.can_be_joined or known.ingest.ended:
            return
        if known.exhausted and not lasting:
            return  # it will be read on by a later engine
        raise EngineError(
            f"stream {stream.name} is being read already, and calling its function again may take"
            " rows away from that reading",
            expected="queries that come before its first row, or after its end",
            hint=REPLAYABLE,
        )

    def serving(
        self,
        node: Scan,
        in_turn: dict[int, int],
        lasting: bool = False,
        saved: str | None = None,
    ) -> SourceNode:
        """Find or make the scan for a node of a plan.  `in_turn` counts how often the query has
        named each of those streams that it reads one time after the other.  A query that is
        `lasting` goes on after the end of what can be read now, so it has readings of its own;
        `saved` is the name of the one that it had."""
        stream = id(node.stream)
        times = in_turn.get(stream, 0)
        if stream in in_turn:
            in_turn[stream] += 1
        log = RejectLog(self._strict)
        ingest = Ingest(node, self._clock, log)
        source = node.stream.source
        ingest.followed = self._follow and isinstance(source, FileSource)
        apart = can_be_read_again(source) and not is_read_alone(source)
        own = lasting and apart and not isinstance(source, LiveSource)
        key = (stream, 0 if ingest.live else times, own)
        known = self._made.get(key) if saved is None else self._saved.get(saved)
        if known is not None and (saved is not None or known.can_be_joined):
            known.ingest.narrow(node.room)  # read once, so it has to suit all of them
            return known
        name = f"{node.stream.name} {key[1] + 1}" if key[1] else node.stream.name
        made = self._made[key] = SourceNode(saved or name, ingest, log)
        if saved is not None:
            self._saved[saved] = made
        made.again = key[1] > 0
        if source is not None and (self._resumable or ingest.followed):
            made.reading = Reading(source)
        return made

    def forget(self, source: SourceNode) -> None:
        """Drop a scan that no query reads."""
        self._made = {key: each for key, each in self._made.items() if each is not source}
        self._saved = {name: each for name, each in self._saved.items() if each is not source}


# Equal parts of two queries, which are one node: the same work on what the same nodes put out.

_OWN = (OperatorKind.LOOKUP, OperatorKind.ORDER)
Producers = Sequence[tuple[GraphNode, dict[str, str] | None]]


def _node_with_same_work(
    node: PhysicalNode, producers: Producers, among: Sequence[OperatorNode]
) -> OperatorNode | None:
    """Find a node that does the work of a plan node on the same inputs."""
    for other in among:
        if _same_work(node, other.node):
            inputs = [(each.producer, each.names) for each in other.inputs]
            if all(
                own is its and names == its_names
                for (own, names), (its, its_names) in zip(producers, inputs, strict=True)
            ):
                return other
    return None


def _same_work(one: PhysicalNode, other: PhysicalNode) -> bool:
    """Whether two plan nodes do the same work, whatever stands below them.  Tables are read for
    every look-up, and ORDER belongs to its query, which may do without it later."""
    return (
        one.operator is other.operator
        and one.operator not in _OWN
        and len(one.ports) == len(other.ports)
        and type(one.logical) is type(other.logical)
        and _physical_details(one) == _physical_details(other)
        and list(_own_fields(one.logical)) == list(_own_fields(other.logical))
    )


def _physical_details(node: PhysicalNode) -> tuple[object, ...]:
    how = (node.asked, node.ordering, node.sorting, node.alpha, node.consistency)
    return (*how, node.whole_windows, node.punctuated, node.unseen)


def _own_fields(node: Node) -> Iterator[Any]:
    """Yield the fields of a logical node except its inputs."""
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        inputs = isinstance(value, tuple) and value and isinstance(value[0], Node)
        if field.compare and not isinstance(value, Node) and not inputs:
            yield value


# The nodes of the graph, and how queries are added and dropped.
#
# Nodes appear and disappear only in `add` and `drop`, before the first tuple and between any two.
# Equal parts of queries are one node as long as nothing below them has been read.  A query that
# comes later shares only streams that cannot be read again, and stateless operators.

_Made = tuple[GraphNode, dict[str, str] | None]


class QueryGraph(Topology):
    """The running query graph, whose components are worked on in a number of `groups`."""

    def __init__(self, scans: Scans, clock: Clock, scheduling: Scheduling, groups: int = 1) -> None:
        super().__init__()
        self.watching: Callable[[OperatorNode], Watched | None] | None = None  # new nodes
        self.full: set[Outlet] = set()  # whose subscribers are too slow
        self._scans = scans
        self._clock = clock
        self._as_items = scheduling.carriage is Carriage.PUNCTUATIONS
        self._names: set[str] = set()
        self._computing: dict[str, list[OperatorNode]] = {}  # by what they compute
        self._arrangement = Arrangement(scheduling.strategy)
        self.parts = Components(self, self._arrangement.arrange, groups)

    # --- queries come and go ---------------------------------------------------------------------

    def reserve(self, names: Iterable[str]) -> None:
        """Reserve the names of saved nodes: no other node gets them."""
        self._names |= set(names)

    def add(
        self,
        plan: PhysicalPlan,
        outlet: Outlet,
        lasting: bool = False,
        saved: Placement | None = None,
    ) -> PlacedQuery:
        """Add a query; its nodes get what their sources deliver from now on.  One that was `saved`
        gets the nodes that it had then."""
        in_turn = read_in_turn(plan.query)
        for stream in in_turn:
            check_can_be_read_in_turn(stream)
        if saved is None:
            for scan in scans_of(plan.query):
                self._scans.check(scan.stream, lasting)
        placed = self.queries[outlet] = PlacedQuery(plan, outlet, lasting=lasting, saved=saved)
        (top, names), _ = self._build(plan.root, placed, dict.fromkeys(map(id, in_turn), 0))
        top.exits.append(Exit(outlet, names))
        for node in (*placed.operators, *placed.sources):
            read = node.read if isinstance(node, SourceNode) else 0
            node.outlets.setdefault(outlet, read)
        new = [node for node in placed.operators if len(node.outlets) == 1]
        self.parts.connect(placed, new)
        for node in new:
            node.catch_up()
        return placed

    def exchange(self, plan: PhysicalPlan, outlet: Outlet) -> PlacedQuery:
        """Exchange the plan of a query that has had no tuple yet; its sources may be open already,
        and go on being read."""
        before = self.queries[outlet]
        self.drop(outlet, keeping_sources=True)
        placed = self.add(plan, outlet, before.lasting)
        self._remove_unreferenced(before.sources)
        if before.share != 1 or before.enabling is not None:
            self.give(outlet, before.share, before.enabling)
        return placed

    def drop(self, outlet: Outlet, keeping_sources: bool = False) -> None:
        """Drop a query, and the nodes that no other query needs."""
        placed = self.queries.pop(outlet)
        for node in (*placed.operators, *placed.sources):
            node.exits = [each for each in node.exits if each.outlet is not outlet]
            node.outlets.pop(outlet, None)
            node.uses.pop(outlet, None)
        gone: list[OperatorNode] = []
        while leaving := [
            node for node in placed.operators if node not in gone and not node.is_wanted
        ]:
            for node in leaving:  # those that it has read may be the next
                self._remove(node)
            gone += leaving
        self.parts.disconnect(placed, gone)
        if not keeping_sources:
            self._remove_unreferenced(placed.sources)

    def _remove_unreferenced(self, sources: Iterable[SourceNode]) -> None:
        """Remove the sources that no query reads."""
        for source in sources:
            if not source.is_wanted:
                self._scans.forget(source)
                self.sources.remove(source)
                self._forget(source)

    def _remove(self, node: OperatorNode) -> None:
        node.leave()
        if isinstance(node.operator, WindowsOfPanesOperator):
            node.operator.leave()
            node.inputs[0].producer.changed()
        self.operators.remove(node)
        self._computing[node.computes].remove(node)
        self._forget(node)

    def _forget(self, node: GraphNode) -> None:
        self._names.discard(node.name)
        self._arrangement.forget(node.name)

    def _build(
        self, node: PhysicalNode, placed: PlacedQuery, in_turn: dict[int, int]
    ) -> tuple[_Made, list[SourceNode]]:
        """Build the node for a part of a plan; with the names that the plan has for its columns,
        and the sources below it."""
        if isinstance(node.logical, Scan):
            source = self._source(node.logical, placed, in_turn)
            return (source, _names(source, node.logical)), [source]
        again = placed.computed_already(node)
        if again is not None:
            return (again[0], None), again[1]
        place = len(placed.operators)
        built = [self._build(each, placed, in_turn) for each in node.inputs]
        producers = [made for made, _ in built]
        below = [sources for _, sources in built]
        sources = list(dict.fromkeys(source for each in below for source in each))
        begun = any(source.begun for source in sources)
        computes = name_of(node, [each for each, _ in producers])
        name = None if placed.saved is None else placed.saved.operator(computes)
        if name is not None:
            made = self._restored(node, producers, computes, name, placed)
            self._put(made, place, node, placed, below)
            placed.remember(made, sources)
            return (made, None), sources
        apart = begun and _keeps(node) and node.operator is not OperatorKind.SHARED_PANES
        known = [] if apart else self._computing.get(computes, [])
        # in one query, equal branches are separate unless the plan shares them
        others = [each for each in known if each not in placed.operators and each.is_clear]
        made = _node_with_same_work(node, producers, others) or self._new(node, producers, computes)
        self._put(made, place, node, placed, below)
        placed.remember(made, sources)
        return (made, None), sources

    def _put(
        self,
        made: OperatorNode,
        place: int,
        node: PhysicalNode,
        placed: PlacedQuery,
        below: list[list[SourceNode]],
    ) -> None:
        placed.operators.insert(place, made)
        placed.met += meetings_at(node, below)
        if keeps_for_others(node):
            placed.kept_for.append(tuple(dict.fromkeys(each for some in below for each in some)))

    def _restored(
        self,
        node: PhysicalNode,
        producers: list[_Made],
        computes: str,
        name: str,
        placed: PlacedQuery,
    ) -> OperatorNode:
        """Restore the node of a name.  If another query has it, and its plan does the work in
        another way now, each gets a node: they begin with the same state."""
        known = [each for each in self._computing.get(computes, []) if each.name == name]
        made = _node_with_same_work(node, producers, known)
        if made is None:
            made = self._new(node, producers, computes, None if known else name)
            if known:
                placed.copies[made] = name
        return made

    def _source(self, node: Scan, placed: PlacedQuery, in_turn: dict[int, int]) -> SourceNode:
        saved = None if placed.saved is None else placed.saved.source(node.stream.name)
        source = self._scans.serving(node, in_turn, placed.lasting, saved)
        placed.asked.append(source)
        if source not in self.sources:
            self.sources.append(source)
            source.name = self._unique(source.name) if saved is None else saved
            source.as_items = self._as_items
            source.full = self.full
        if source not in placed.sources:
            placed.sources.append(source)
        return source

    def _new(
        self,
        node: PhysicalNode,
        producers: list[_Made],
        computes: str,
        name: str | None = None,
    ) -> OperatorNode:
        name = name or self._unique(computes)
        made = node_for(name, operator_for(node, self._clock), node, computes)
        self._computing.setdefault(computes, []).append(made)
        made.as_items = self._as_items
        made.read(producers)
        if self.watching is not None:
            made.watched = self.watching(made)
        if isinstance(made.operator, WindowsOfPanesOperator):
            _share(made, made.operator, producers)
        self.operators.append(made)
        return made

    def put_before_exit(self, node: PhysicalNode, outlet: Outlet) -> OperatorNode:
        """Let the rows of a query go through one more operator before they leave."""
        placed = self.queries[outlet]
        nodes: list[GraphNode] = [*placed.operators, *placed.sources]
        top, way_out = next(
            (node, each) for node in nodes for each in node.exits if each.outlet is outlet
        )
        top.exits.remove(way_out)
        producers: list[_Made] = [(top, dict(way_out.names) if way_out.names else None)]
        made = self._new(node, producers, name_of(node, [top]))
        made.exits.append(Exit(outlet))
        made.outlets[outlet] = 0
        placed.operators.insert(0, made)
        self.parts.change()
        return made

    def take_out(self, node: OperatorNode, outlet: Outlet) -> None:
        """The operator before an exit, which rows need not go through any more."""
        (input_,) = node.inputs
        input_.producer.exits.append(Exit(outlet, input_.names))
        self.queries[outlet].operators.remove(node)
        self._remove(node)
        self.parts.change()

    # --- what follows from the topology ----------------------------------------------------------

    @property
    def components(self) -> list[Component]:
        """The connected parts."""
        return self.parts.all()

    def component_of(self, node: GraphNode) -> Component:
        return self.parts.of(node)

    def drain(self) -> None:
        """Work until nothing waits anywhere."""
        for component in self.components:
            component.drain()

    # --- how it is worked on ---------------------------------------------------------------------

    @property
    def table(self) -> StateTable:
        """State, predecessors, successors and rule of every node."""
        self._arrangement.arrange(self.nodes)
        return state_table(self.nodes)

    def table_of(self, outlet: Outlet) -> StateTable:
        """The rows of the state table that are about one query."""
        placed = self.queries[outlet]
        self._arrangement.arrange(self.nodes)
        return state_table([*placed.sources, *reversed(placed.operators)])

    def give(self, outlet: Outlet, share: float | None = None, ets: Enabling | None = None) -> None:
        """Give a query, and all that it is connected with, a share of the time or another way to
        make enabling timestamps (ETS)."""
        placed = self.queries[outlet]
        placed.share = placed.share if share is None else share
        placed.enabling = placed.enabling if ets is None else ets
        self.parts.change()  # the largest share of several counts

    def use(self, strategy: Strategy, nodes: Iterable[str] | None = None) -> None:
        """Use another strategy from the next step on: for the nodes of some names, or for all."""
        names = list(nodes) if nodes is not None else [node.name for node in self.nodes]
        self._arrangement.use(strategy, names)
        self._arrangement.arrange(self.nodes)
        self.parts.set_memory_limits()

    def watch(self, executed: Callable[[GraphNode], None]) -> None:
        """Call back after every execution, and make each execution a step of its own."""
        for cycle in self.parts.cycles:
            cycle.executed = executed
        self._arrangement.watched = True
        self._arrangement.arrange(self.nodes)

    def break_off(self, names: Iterable[str], among: Iterable[str] | None = None) -> None:
        """Make break nodes of the nodes with these names, and of no others `among` some or all:
        behind them the scheduler selects the next operator."""
        chosen, meant = set(names), None if among is None else set(among)
        for node in self.nodes:
            if meant is None or node.name in meant:
                node.broken_off = node.name in chosen
        self._arrangement.arrange(self.nodes)

    def _unique(self, name: str) -> str:
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name} {number}"
        self._names.add(found)
        return found


def _share(made: OperatorNode, operator: WindowsOfPanesOperator, producers: list[_Made]) -> None:
    """Let an operator make its windows of the panes that the node before it folds."""
    ((folding, _),) = producers
    assert isinstance(folding, OperatorNode)
    assert isinstance(folding.operator, SharedPanesOperator)
    operator.share(folding.operator, made.name, made.changed)
    folding.changed()


def _keeps(node: PhysicalNode) -> bool:
    """Whether the operator has state of tuples that a new query has not asked for."""
    return node.stateful or len(node.ports) > 1


def _names(source: SourceNode, node: Scan) -> dict[str, str] | None:
    own, wanted = source.ingest.schema.names, node.schema.arrow.names
    return None if own == wanted else dict(zip(own, wanted, strict=True))
