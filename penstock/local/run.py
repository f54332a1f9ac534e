"""A run of one or several queries: their graph, the deliveries of sources, the clock, and the
counts of tuples.

The run handles a chunk; the scheduler decides when which source is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from time import perf_counter_ns

from penstock.io.sources.source import Chunk
from penstock.kernel.joins.lookup import LookupOperator
from penstock.kernel.operator import NOTHING_OPEN, OpenResults, OperatorStatus
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.graph.query_graph import QueryGraph, Scans
from penstock.local.graph.source_node import Delivered, Ended, SourceNode
from penstock.local.graph.topology import PlacedQuery, Placement, windows_of_panes_name
from penstock.local.graph_options import Scheduling
from penstock.local.scheduling.components import Component, Group
from penstock.local.status import GraphStatus, graph_status
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING
from penstock.optimizer.lowering import asked_of_results
from penstock.optimizer.sharing import share_panes, shareable_panes, sharing
from penstock.plan.final_bounds import closing_reach, last_tick
from penstock.plan.nodes.aggregation import SharedPanes, WindowAggregate
from penstock.plan.nodes.join import Lookup
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import OperatorKind, Ordering, PhysicalNode, PhysicalPlan, Port
from penstock.runs.adaptation import Adapting
from penstock.runs.answer import Account, Outlet
from penstock.runs.lookup_tables import Tables

ENDED = "ended"  # instead of a bound, by a final run


class LocalRun:
    """A graph for some queries, with their outlets in the same order."""

    def __init__(
        self,
        plans: Sequence[PhysicalPlan],
        outlets: Sequence[Outlet],
        clock: Clock,
        strict: bool = False,
        resumable: bool = False,
        follow: bool = False,
        scheduling: Scheduling | None = None,
        groups: int = 1,
    ) -> None:
        """A `resumable` run can be saved and resumed; one that is to `follow` its files looks for
        more of them.  Its graph is worked on in so many `groups`."""
        self.before: dict[Outlet, Account] = {}  # what earlier runs have counted
        self.closed: dict[str, int | str] = {}  # by a final run: bounds by stream
        self.clock = clock
        self.scheduling = scheduling or Scheduling()
        self._strict = strict
        self._resumable = resumable
        scans = Scans(clock, strict, resumable, follow)
        self.graph = QueryGraph(scans, clock, self.scheduling, groups)
        mode = self.scheduling.enabling
        self.groups = [Group(number, self.graph.parts, mode, clock) for number in range(groups)]
        self.adapting = Adapting(self.scheduling.adaptation, clock)
        self.graph.watching = self.adapting.watched
        # queries that share panes, or could
        self._with_panes: dict[SharedPanes, dict[Outlet, None]] = {}
        # queries that see the effect of every tuple
        self._one_by_one: dict[Outlet, PlacedQuery] = {}
        self._unfilled: list[OperatorNode] = []
        self._timed: list[OperatorNode] = []
        # a resumable run gets plans that share what they have shared before
        together = plans if resumable else share_panes(plans)
        for plan, outlet in zip(together, outlets, strict=True):
            self._add(plan, outlet)

    def add(
        self,
        plan: PhysicalPlan,
        outlet: Outlet,
        lasting: bool = False,
        saved: Placement | None = None,
    ) -> dict[Outlet, PlacedQuery]:
        """Add a query, between any two chunks; see `QueryGraph.add`.  It shares panes with those
        that run; one that was `saved` shares those that it shared then.  Returns the former places
        of the queries whose plans have been exchanged for its sake."""
        moved: dict[Outlet, PlacedQuery] = {}
        if saved is None:
            plan = self._sharing(plan, moved)
        else:
            plan = shared_as_saved(plan, saved)
        self._add(plan, outlet, lasting, saved)
        return moved

    def _sharing(self, plan: PhysicalPlan, moved: dict[Outlet, PlacedQuery]) -> PhysicalPlan:
        """Share panes with other queries.  Queries that have had no tuple yet share from the
        beginning; those that have had some stay unchanged, and the new query begins panes that
        later ones can join."""
        wanted = frozenset(shareable_panes(plan))
        known = [panes for panes in wanted if self._with_panes.get(panes)]
        for outlet in {each: None for panes in known for each in self._with_panes[panes]}:
            placed = self.graph.queries[outlet]
            if any(source.begun for source in placed.sources):
                continue
            common = wanted & placed.could_share
            if common:
                moved[outlet] = placed
                plan_of_other = sharing(placed.plan, list(common))
                self._register(self.graph.exchange(plan_of_other, outlet))
        return sharing(plan, known)

    def _add(
        self,
        plan: PhysicalPlan,
        outlet: Outlet,
        lasting: bool = False,
        saved: Placement | None = None,
    ) -> None:
        self._register(self.graph.add(plan, outlet, lasting, saved))

    def _register(self, placed: PlacedQuery) -> None:
        """Register the nodes of a query that need tables or the clock, or single tuples."""
        for panes in placed.could_share | placed.shares:
            self._with_panes.setdefault(panes, {})[placed.outlet] = None
        if placed.plan.one_by_one:
            self._one_by_one[placed.outlet] = placed
        self._drop_unused_nodes()
        new = [node for node in placed.operators if len(node.outlets) == 1]
        self._unfilled += [each for each in new if isinstance(each.operator, LookupOperator)]
        self._timed += [each for each in new if each.operator.due() is not None]

    def drop(self, outlet: Outlet) -> Account:
        """Drop a query, and return what it has counted."""
        account, placed = self.total(outlet), self.graph.queries[outlet]
        self.before.pop(outlet, None)
        self._one_by_one.pop(outlet, None)
        for panes in placed.could_share | placed.shares:
            self._with_panes.get(panes, {}).pop(outlet, None)
        self.graph.drop(outlet)
        self._drop_unused_nodes()
        return account

    def _drop_unused_nodes(self) -> None:
        """Unregister the nodes that serve no query; sources go tuple by tuple only while a query
        needs it."""
        one_by_one = {source for each in self._one_by_one.values() for source in each.sources}
        for source in self.graph.sources:
            source.one_by_one = source in one_by_one
        self._unfilled, self._timed = (
            [node for node in nodes if node.outlets] for nodes in (self._unfilled, self._timed)
        )

    @property
    def queries(self) -> tuple[QueryPlan, ...]:
        return tuple(placed.plan.query for placed in self.graph.queries.values())

    @property
    def plans(self) -> tuple[PhysicalPlan, ...]:
        return tuple(placed.plan for placed in self.graph.queries.values())

    @property
    def outlets(self) -> tuple[Outlet, ...]:
        return tuple(self.graph.queries)

    @property
    def scans(self) -> list[SourceNode]:
        return self.graph.sources

    @property
    def stages(self) -> list[OperatorNode]:
        """Operators of all queries, each before those that feed it."""
        placed = self.graph.queries.values()
        return list(dict.fromkeys(node for query in placed for node in query.operators))

    def read_tables(self, tables: Tables | None = None) -> None:
        """Fill the operators that look tuples up in tables; once, before any tuple."""
        waiting, self._unfilled = self._unfilled, []
        tables = tables or Tables(self.clock, self._strict)
        reported: set[tuple[int, Outlet]] = set()
        for node in waiting:
            operator, lookup = node.operator, node.node.logical
            assert isinstance(operator, LookupOperator)
            assert isinstance(lookup, Lookup)
            operator.fill(tables.rows(lookup))
            for table, rejects in tables.rejects(lookup):
                for outlet in node.outlets:
                    if rejects and (table, outlet) not in reported:
                        outlet.on_rejects(rejects)
                    reported.add((table, outlet))

    # --- what sources deliver --------------------------------------------------------------------

    def feed(self, scan: SourceNode, chunk: Chunk) -> None:
        """Handle a chunk of a source; no rows at all mean that it was silent."""
        self.deliver(scan, chunk)
        self.work(self.graph.component_of(scan))

    def end(self, scan: SourceNode) -> None:
        self.deliver(scan, Ended())
        self.work(self.graph.component_of(scan))

    def deliver(self, scan: SourceNode, delivered: Delivered) -> None:
        """Enqueue a delivery of a source, which is handled when the graph works."""
        if self._unfilled:
            self.read_tables()
        if isinstance(delivered, Chunk) and delivered.num_rows:
            self.groups[self.graph.component_of(scan).group].enabling.stir()
        scan.deliver(delivered)

    def work(self, component: Component) -> None:
        """Work until nothing waits in a component of the graph."""
        begun, group = perf_counter_ns(), self.groups[component.group]
        component.drain()
        group.enabling.after(component)
        if self._timed:
            self._run_timed(group)
        component.flush()
        if component.watched:
            self.adapting.look(component.watched)
        component.used += (perf_counter_ns() - begun) / component.share

    def _run_timed(self, group: Group) -> None:
        """Let timed operators act on the clock."""
        now = self.clock.now()
        for node in self._timed_nodes(group):
            group.cycle.current = node
            node.on_time(now)
        group.cycle.current = None
        for component in group.components:
            component.drain()

    def _timed_nodes(self, group: Group) -> list[OperatorNode]:
        """Timed operators of a group whose queries are not paused."""
        return [each for each in self._timed if group.has(each.component) and _is_active(each)]

    # --- when nothing is delivered ---------------------------------------------------------------

    def due(self, group: Group | None = None) -> int | None:
        """Next wake-up time of a group (the only one if None is given) in microseconds, or None."""
        group = group or self.groups[0]
        times = [group.enabling.due(group.awake)]
        times += [node.operator.due() for node in self._timed_nodes(group)]
        return min((each for each in times if each is not None), default=None)

    def look_at_clock(self, group: Group | None = None) -> None:
        """Handle the time that has passed: silence of sources, enabling timestamps, timed
        operators."""
        group = group or self.groups[0]
        group.enabling.look(group.awake)
        if self._timed:
            self._run_timed(group)
        for component in group.components:
            component.flush()

    def close_all(self) -> None:
        """Close what is open, because nothing more is expected."""
        self.closed |= (closed := self.closing())
        for scan in self.scans:
            if scan.name in closed:
                self.close_scan(scan, closed[scan.name])
        self.graph.drain()
        for scan in self.left_open():
            self.close_scan(scan, ENDED)

    def left_open(self) -> list[SourceNode]:
        """Sources of queries that still have open results after closing by bounds: the end of the
        sources closes these.  A result that has no value so far is an error then, as without a
        checkpoint.  Results of paused queries stay open."""
        waiting = {outlet for outlet in self.outlets if self.open_results(outlet).count}
        return [
            scan
            for scan in self.scans
            if waiting & scan.outlets.keys()
            and not scan.ingest.ended
            and not self.graph.component_of(scan).held
        ]

    def closing(self) -> dict[str, int | str]:
        """Decide, by stream, how open results are closed: by a bound if that is possible, so that a
        later run can resume, or else by the end of the stream."""
        closed: dict[str, int | str] = {}
        for query, outlet in zip(self.queries, self.outlets, strict=True):
            scans = [scan for scan in self.scans if outlet in scan.outlets]
            reach = closing_reach(query)
            high = max((scan.ingest.high for scan in scans), default=BEGINNING)
            last = min((last_tick(scan.ingest.stream) for scan in scans), default=0)
            for scan in scans:
                if reach is None or high + reach > last:  # no tick is that high
                    closed[scan.name] = ENDED
                elif high != BEGINNING and closed.get(scan.name) != ENDED:
                    bound = int(high) + reach
                    closed[scan.name] = max(bound, int(closed.get(scan.name, bound)))
        return closed

    def close_scan(self, scan: SourceNode, bound: int | str) -> None:
        if bound == ENDED:
            self.closed[scan.name] = ENDED
            self.end(scan)
        else:
            scan.close_below(int(bound))

    def close(self) -> None:
        """End all outlets: everything released has gone to the sinks, and nothing follows."""
        for outlet in self.outlets:
            outlet.end()

    # --- counts and status ------------------------------------------------------------------------

    def account(self, outlet: Outlet) -> Account:
        scans = self.graph.queries[outlet].sources
        read = sum(scan.read - scan.outlets[outlet] for scan in scans)
        return Account(read, outlet.late, outlet.rejected)

    def total(self, outlet: Outlet) -> Account:
        """Counts of this run and those before it."""
        own, before = self.account(outlet), self.before.get(outlet)
        return own if before is None else own.plus(before)

    def open_results(self, outlet: Outlet) -> OpenResults:
        """Results of a query that have been begun and not been emitted."""
        nodes = self.graph.queries[outlet].operators
        return reduce(or_, (node.operator.open_results() for node in nodes), NOTHING_OPEN)

    def operators(self, outlet: Outlet) -> list[OperatorStatus]:
        """Status of the operators of a query, from the sink to the sources."""
        self.graph.settle()
        return [node.measured.status() for node in self.graph.queries[outlet].operators]

    def status(
        self, names: Mapping[Outlet, str], dropped: Mapping[str, int] | None = None
    ) -> GraphStatus:
        """Status of the graph; `names` are those of the queries."""
        return graph_status(self.graph, names, dropped, self.adapting.decisions)

    # --- rows that wait for their order ----------------------------------------------------------

    def put_in_order(self, number: int) -> OperatorNode:
        """Put an ORDER operator behind a plan that delivers its rows in order by itself: rows of an
        earlier plan may be waiting there."""
        outlet, plan = self.outlets[number], self.plans[number]
        query = plan.executed
        node = PhysicalNode(
            query,
            OperatorKind.ORDER,
            (Port(plan.root, keys=()),),
            asked_of_results(query),
            Ordering.SORTED,
        )
        return self.graph.put_before_exit(node, outlet)

    def leave_at_once(self, order: OperatorNode) -> None:
        """Take out the ORDER operator of a query, in which no row waits."""
        (outlet,) = order.outlets
        self.graph.take_out(order, outlet)


def shared_as_saved(plan: PhysicalPlan, saved: Placement) -> PhysicalPlan:
    """Share panes in those aggregations that shared them when the query was saved."""

    def shares(aggregate: WindowAggregate) -> bool:
        return windows_of_panes_name(aggregate) in saved.operators

    return sharing(plan, list(shareable_panes(plan, shares)), shares)


def _is_active(node: OperatorNode) -> bool:
    """Whether the queries of a node are not paused."""
    return node.component is None or not node.component.held
