"""The topology: which nodes there are, and how queries come and go.

`add` and `drop` are the only ways in which nodes appear and disappear, before the first tuple and
between any two.  Equal parts of queries are one node, as long as nothing below them has been read:
what comes later shares streams that cannot be read again, and what keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.engine.chain import MemoryPolicy
from penstock.engine.component import Component
from penstock.engine.cycle import Cycle
from penstock.engine.graph.naming import name_of
from penstock.engine.graph.node import Exit, GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.placed_query import PlacedQuery
from penstock.engine.graph.placement import Placement
from penstock.engine.graph.scans import Scans
from penstock.engine.graph.sharing import doing_the_same
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.in_step import Meeting, keeps_for_others, meetings, met_in
from penstock.engine.options import Carriage, Enabling, Scheduling
from penstock.engine.strategy.strategy import Strategy
from penstock.engine.strategy.table import StateTable, TableNode, put_in_place, state_table
from penstock.model.clock import Clock
from penstock.operators.build import operator_for
from penstock.operators.windows.shared.shared_panes import SharedPanesOperator
from penstock.operators.windows.shared.windows_of_panes import WindowsOfPanesOperator
from penstock.optimizer.share_readings import check_can_be_read_in_turn, read_in_turn
from penstock.physical.node import PhysicalNode
from penstock.physical.plan import PhysicalPlan
from penstock.plan.stateless import Scan
from penstock.runs.outlet import Outlet

if TYPE_CHECKING:
    from penstock.engine.adapting.watched import Watched

_Made = tuple[GraphNode, dict[str, str] | None]


class QueryGraph:
    def __init__(self, scans: Scans, clock: Clock, scheduling: Scheduling) -> None:
        self.queries: dict[Outlet, PlacedQuery] = {}
        self.sources: list[SourceNode] = []
        self.operators: list[OperatorNode] = []
        self.cycle = Cycle()
        self.watching: Callable[[OperatorNode], Watched | None] | None = None  # new nodes
        self._scans = scans
        self._clock = clock
        self._scheduling = scheduling
        self._strategies: dict[str, Strategy] = {}  # of single nodes, by name
        self._names: set[str] = set()
        self._computing: dict[str, list[OperatorNode]] = {}  # by what they compute
        self._components: list[Component] = []
        self._changed = True  # the topology, since they were found

    # --- queries come and go ---------------------------------------------------------------------

    def reserve(self, names: Iterable[str]) -> None:
        """Names of nodes that were saved: no other node is called so."""
        self._names |= set(names)

    def add(
        self,
        plan: PhysicalPlan,
        outlet: Outlet,
        lasting: bool = False,
        saved: Placement | None = None,
    ) -> PlacedQuery:
        """The nodes of a query; they get what their sources deliver from now on.  One that was
        `saved` gets those that it had then."""
        in_turn = read_in_turn(plan.query)
        for stream in in_turn:
            check_can_be_read_in_turn(stream)
        placed = self.queries[outlet] = PlacedQuery(plan, outlet, lasting=lasting, saved=saved)
        (top, names), _ = self._build(plan.root, placed, dict.fromkeys(map(id, in_turn), 0))
        top.exits.append(Exit(outlet, names))
        for node in (*placed.operators, *placed.sources):
            read = node.read if isinstance(node, SourceNode) else 0
            node.outlets.setdefault(outlet, read)
        new = [node for node in placed.operators if len(node.outlets) == 1]
        self._connect(placed, new)
        for node in new:
            node.catch_up()
        return placed

    def drop(self, outlet: Outlet) -> None:
        """A query leaves, and with it the nodes that nobody else has a use for."""
        placed = self.queries.pop(outlet)
        for node in (*placed.operators, *placed.sources):
            node.exits = [each for each in node.exits if each.outlet is not outlet]
            node.outlets.pop(outlet, None)
        gone: list[OperatorNode] = []
        while leaving := [
            node for node in placed.operators if node not in gone and not node.is_wanted
        ]:
            for node in leaving:  # those that it has read may be the next
                self._remove(node)
            gone += leaving
        self._disconnect(placed, gone)
        for source in placed.sources:
            if not source.is_wanted:
                self._scans.forget(source)
                self.sources.remove(source)
                self._forget(source)

    def _remove(self, node: OperatorNode) -> None:
        node.leave()
        if isinstance(node.operator, WindowsOfPanesOperator):
            node.operator.leave()
        self.operators.remove(node)
        self._computing[node.computes].remove(node)
        self._forget(node)

    def _forget(self, node: GraphNode) -> None:
        self._names.discard(node.name)
        self._strategies.pop(node.name, None)

    def _connect(self, placed: PlacedQuery, new: list[OperatorNode]) -> None:
        """A query over one stream that others read belongs to their part of the graph; otherwise
        parts may have become one."""
        component = placed.sources[0].component
        if self._changed or len(placed.sources) > 1 or component is None:
            self._changed = True
            return
        component.take_in(new)
        producers = [each for node in new for each in node.predecessors]
        self._put_in_place(list(dict.fromkeys((*new, *producers))))
        self._give(placed)

    def _disconnect(self, placed: PlacedQuery, gone: list[OperatorNode]) -> None:
        """Without a query over one stream, all others are connected as before."""
        (source, *others), usual = placed.sources, placed.share == 1 and placed.enabling is None
        if self._changed or others or not source.is_wanted or not usual:
            self._changed = True
            return
        assert source.component is not None
        source.component.let_go(gone)
        producers = {each: None for node in gone for each in node.predecessors}
        left = [each for each in producers if each not in gone]
        self._put_in_place(left)

    def _build(
        self, node: PhysicalNode, placed: PlacedQuery, in_turn: dict[int, int]
    ) -> tuple[_Made, list[SourceNode]]:
        """The node for a part of a plan, with the names that the plan has for its columns, and the
        sources below it."""
        if isinstance(node.logical, Scan):
            source = self._source(node.logical, placed, in_turn)
            return (source, _names(source, node.logical)), [source]
        place = len(placed.operators)
        built = [self._build(each, placed, in_turn) for each in node.inputs]
        producers = [made for made, _ in built]
        below = [sources for _, sources in built]
        sources = list(dict.fromkeys(source for each in below for source in each))
        begun = any(source.begun for source in sources)
        computes = name_of(node, [each for each, _ in producers])
        name = None if placed.saved is None else placed.saved.operator(computes)
        if name is not None:
            made = self._as_it_was(node, producers, computes, name, placed)
            self._put(made, place, node, placed, below)
            return (made, None), sources
        known = [] if begun and _keeps(node) else self._computing.get(computes, [])
        # in one query, equal branches are apart: what is late is late in each of them
        others = [each for each in known if each not in placed.operators and each.is_clear]
        made = doing_the_same(node, producers, others) or self._new(node, producers, computes)
        self._put(made, place, node, placed, below)
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
        placed.met += met_in(node, below)
        if keeps_for_others(node):
            placed.kept_for.append(tuple(dict.fromkeys(each for some in below for each in some)))

    def _as_it_was(
        self,
        node: PhysicalNode,
        producers: list[_Made],
        computes: str,
        name: str,
        placed: PlacedQuery,
    ) -> OperatorNode:
        """The node of a name.  If another query has it, and works in another way today, each gets
        one: they begin with the same state."""
        known = [each for each in self._computing.get(computes, []) if each.name == name]
        made = doing_the_same(node, producers, known)
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
        made = OperatorNode(name, operator_for(node, self._clock), node, computes)
        self._computing.setdefault(computes, []).append(made)
        made.as_items = self._as_items
        made.read(producers)
        if self.watching is not None:
            made.watched = self.watching(made)
        if isinstance(made.operator, WindowsOfPanesOperator):
            _share(made.operator, producers)
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
        self._changed = True
        return made

    def take_out(self, node: OperatorNode, outlet: Outlet) -> None:
        """The operator before an exit, which rows need not go through any more."""
        (input_,) = node.inputs
        input_.producer.exits.append(Exit(outlet, input_.names))
        self.queries[outlet].operators.remove(node)
        self._remove(node)
        self._changed = True

    # --- what follows from the topology ----------------------------------------------------------

    @property
    def nodes(self) -> list[GraphNode]:
        return [*self.sources, *self.operators]

    @property
    def components(self) -> list[Component]:
        """The connected parts."""
        if self._changed:
            self._changed = False
            used = min((each.used for each in self._components), default=0.0)
            self._put_in_place(self.nodes)
            parts = _connected(self.nodes)
            self._components = [Component(part, self.cycle, used=used) for part in parts]
            self._mind_memory(self._components)
            for placed in self.queries.values():
                self._give(placed)
        return self._components

    def component_of(self, node: GraphNode) -> Component:
        if self._changed or node.component is None:
            return next(each for each in self.components if node in each.nodes)
        return node.component

    @property
    def meetings(self) -> list[Meeting]:
        """What is read together."""
        met = [each for placed in self.queries.values() for each in placed.met]
        return meetings(self.sources, met)

    def waited_for(self) -> dict[SourceNode, list[SourceNode]]:
        """The other sources that tuples of a source are kept for, by source."""
        found: dict[SourceNode, dict[SourceNode, None]] = {each: {} for each in self.sources}
        for placed in self.queries.values():
            for sources in placed.kept_for:
                for source in sources:
                    found[source] |= dict.fromkeys(each for each in sources if each is not source)
        return {source: list(others) for source, others in found.items()}

    def in_turn(self) -> dict[SourceNode, list[SourceNode]]:
        """The sources that come before a source because a window counts rows as they arrive, one
        source after the other; not so if one of them is live, and counted as it arrives."""
        found: dict[SourceNode, list[SourceNode]] = {}
        for placed in self.queries.values():
            for met in placed.met:
                if met.in_turn and not any(scan.ingest.live for scan in met.scans):
                    for place, scan in enumerate(met.scans):
                        found.setdefault(scan, []).extend(met.scans[:place])
        return found

    def drain(self) -> None:
        """Until nothing waits anywhere."""
        for component in self.components:
            component.drain()

    # --- how it is worked on ---------------------------------------------------------------------

    @property
    def table(self) -> StateTable:
        """State, predecessors, successors and rule of every node."""
        self._put_in_place(self.nodes)
        return state_table(self.nodes)

    def give(self, outlet: Outlet, share: float | None = None, ets: Enabling | None = None) -> None:
        """A share of the time, or another way to make enabling timestamps, for a query and all
        that it is connected with."""
        placed = self.queries[outlet]
        placed.share = placed.share if share is None else share
        placed.enabling = placed.enabling if ets is None else ets
        self._changed = True  # the largest share of several counts

    def _give(self, placed: PlacedQuery) -> None:
        component = self.component_of(placed.sources[0])
        component.share = max(component.share or 0.0, placed.share)
        component.enabling = placed.enabling or component.enabling

    def use(self, strategy: Strategy, nodes: Iterable[str] | None = None) -> None:
        """Another strategy from the next step on: for the nodes of some names, or for all."""
        names = list(nodes) if nodes is not None else [node.name for node in self.nodes]
        self._strategies |= dict.fromkeys(names, strategy)
        self._put_in_place(self.nodes)
        self._mind_memory(self._components)

    def watch(self, executed: Callable[[GraphNode], None]) -> None:
        """Tell somebody of every execution; so each is a step of its own."""
        self.cycle.executed = executed
        self._put_in_place(self.nodes)

    def break_off(self, names: Iterable[str]) -> None:
        """Behind the nodes of these names, and no others, it is the scheduler who goes on."""
        chosen = set(names)
        for node in self.nodes:
            node.broken_off = node.name in chosen
        self._put_in_place(self.nodes)

    def _mind_memory(self, components: Sequence[Component]) -> None:
        """Where a strategy says so."""
        for each in components:
            limits = [n.memory_limit for n in each.nodes if n.memory_limit is not None]
            if each.memory is not None:
                each.memory.mend()
            each.memory = (
                MemoryPolicy(each.nodes, min(limits), self._put_in_place) if limits else None
            )

    def _put_in_place(self, nodes: Sequence[GraphNode]) -> None:
        put_in_place(nodes, self._strategy_of)
        if self.cycle.executed is not None:
            for node in nodes:
                node.hands_over = False

    def _strategy_of(self, node: TableNode) -> Strategy:
        return self._strategies.get(node.name, self._scheduling.strategy)

    @property
    def _as_items(self) -> bool:
        return self._scheduling.carriage is Carriage.PUNCTUATIONS

    def _unique(self, name: str) -> str:
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name} {number}"
        self._names.add(found)
        return found


def _share(operator: WindowsOfPanesOperator, producers: list[_Made]) -> None:
    """Let an operator make its windows of the panes that the node before it folds."""
    ((folding, _),) = producers
    assert isinstance(folding, OperatorNode)
    assert isinstance(folding.operator, SharedPanesOperator)
    operator.share(folding.operator)


def _keeps(node: PhysicalNode) -> bool:
    """Whether it has kept something of tuples that a new query has not asked for."""
    return node.stateful or len(node.ports) > 1


def _names(source: SourceNode, node: Scan) -> dict[str, str] | None:
    own, wanted = source.ingest.schema.names, node.schema.arrow.names
    return None if own == wanted else dict(zip(own, wanted, strict=True))


def _connected(nodes: list[GraphNode]) -> list[list[GraphNode]]:
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
