"""A run of one or several queries: their graph, what is told to it, and what has become of tuples.

The run says what follows from a chunk; when which source is read is the scheduler's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from time import perf_counter_ns

from penstock.engine.adapting.adapting import Adapting
from penstock.engine.component import Component
from penstock.engine.enabling import EnablingMode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.graph.placed_query import PlacedQuery
from penstock.engine.graph.placement import Placement
from penstock.engine.graph.query_graph import QueryGraph
from penstock.engine.graph.scans import Scans
from penstock.engine.graph.source_node import Delivered, Ended, SourceNode
from penstock.engine.options import Scheduling
from penstock.engine.status import GraphStatus, graph_status
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING
from penstock.operators.joins.lookups.lookup import LookupOperator
from penstock.operators.measured import OperatorStatus
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.optimizer.physical.revisions import asked_of_results
from penstock.optimizer.share_panes import share_panes, shareable_panes, sharing
from penstock.physical.node import OperatorKind, Ordering, PhysicalNode, Port
from penstock.physical.plan import PhysicalPlan
from penstock.plan.closing import closing_reach, last_tick
from penstock.plan.joins import Lookup
from penstock.plan.query import QueryPlan
from penstock.plan.shared_panes import SharedPanes
from penstock.runs.answer import Account
from penstock.runs.outlet import Outlet
from penstock.runs.tables import Tables
from penstock.sources.source import Chunk


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
    ) -> None:
        """A `resumable` run can be saved and gone on with; one that is to `follow` its files looks
        for more of them."""
        self.before: dict[Outlet, Account] = {}  # what earlier runs have counted
        self.closed: dict[str, int | str] = {}  # by a final run: bounds by stream
        self.clock = clock
        self.scheduling = scheduling or Scheduling()
        self._strict = strict
        self._resumable = resumable
        scans = Scans(clock, strict, resumable, follow)
        self.graph = QueryGraph(scans, clock, self.scheduling)
        self.enabling = EnablingMode(self.scheduling.enabling, clock)
        self.graph.cycle.ask = self.enabling.ask
        self.adapting = Adapting(self.scheduling.adaptation, clock)
        self.graph.watching = self.adapting.watched
        self._unfilled: list[OperatorNode] = []
        self._timed: list[OperatorNode] = []
        # who can go on later has seen to it that queries share what they have shared before
        together = plans if resumable else share_panes(plans)
        for plan, outlet in zip(together, outlets, strict=True):
            self._add(plan, outlet)

    def add(
        self,
        plan: PhysicalPlan,
        outlet: Outlet,
        lasting: bool = False,
        saved: Placement | None = None,
    ) -> None:
        """One more query, between any two chunks; see `QueryGraph.add`.  Before the first one,
        queries that are there share what they have in common with it, unless it is saved."""
        if not self._resumable and not lasting:
            plan = self._sharing(plan)
        self._add(plan, outlet, lasting, saved)

    def _sharing(self, plan: PhysicalPlan) -> PhysicalPlan:
        wanted = set(shareable_panes(plan))
        for outlet, placed in list(self.graph.queries.items()) if wanted else ():
            common = [each for each in shareable_panes(placed.plan) if each in wanted]
            if common and _can_change(placed):
                self.drop(outlet)
                self._add(sharing(placed.plan, common), outlet)
        known = {
            node.logical
            for placed in self.graph.queries.values()
            if _can_change(placed)
            for node in placed.plan.root.walk()
            if isinstance(node.logical, SharedPanes)
        }
        return sharing(plan, [each for each in wanted if each in known])

    def _add(
        self,
        plan: PhysicalPlan,
        outlet: Outlet,
        lasting: bool = False,
        saved: Placement | None = None,
    ) -> None:
        placed = self.graph.add(plan, outlet, lasting, saved)
        new = [node for node in placed.operators if len(node.outlets) == 1]
        self._unfilled += [each for each in new if isinstance(each.operator, LookupOperator)]
        self._timed += [each for each in new if each.operator.due() is not None]

    def drop(self, outlet: Outlet) -> Account:
        """A query leaves; what it has counted."""
        account = self.total(outlet)
        self.before.pop(outlet, None)
        self.graph.drop(outlet)
        self._unfilled, self._timed = (
            [node for node in nodes if node.outlets] for nodes in (self._unfilled, self._timed)
        )
        return account

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
        """All operators, each before those that feed it, query by query."""
        placed = self.graph.queries.values()
        return list(dict.fromkeys(node for query in placed for node in query.operators))

    def read_tables(self, tables: Tables | None = None) -> None:
        """Let the operators that look tuples up in tables have these; once, before any tuple."""
        waiting, self._unfilled = self._unfilled, []
        tables = tables or Tables(self.clock, self._strict)
        told: set[tuple[int, Outlet]] = set()
        for node in waiting:
            operator, lookup = node.operator, node.node.logical
            assert isinstance(operator, LookupOperator)
            assert isinstance(lookup, Lookup)
            operator.fill(tables.rows(lookup))
            for table, rejects in tables.rejects(lookup):
                for outlet in node.outlets:
                    if rejects and (table, outlet) not in told:
                        outlet.on_rejects(rejects)
                    told.add((table, outlet))

    # --- what sources deliver --------------------------------------------------------------------

    def feed(self, scan: SourceNode, chunk: Chunk) -> None:
        """Take in what a source has delivered; no rows at all mean that it had nothing to say."""
        self.deliver(scan, chunk)
        self.work(self.graph.component_of(scan))

    def end(self, scan: SourceNode) -> None:
        self.deliver(scan, Ended())
        self.work(self.graph.component_of(scan))

    def deliver(self, scan: SourceNode, delivered: Delivered) -> None:
        """Something of a source, which is handled when the graph works."""
        if self._unfilled:
            self.read_tables()
        if isinstance(delivered, Chunk) and delivered.batch.num_rows:
            self.enabling.stir()
        scan.deliver(delivered)

    def work(self, component: Component) -> None:
        """Until nothing waits in a part of the graph."""
        begun = perf_counter_ns()
        component.drain()
        self.enabling.after(component)
        if self._timed:
            self._tell_time()
        component.flush()
        if component.watched:
            self.adapting.look(component.watched)
        component.used += (perf_counter_ns() - begun) / component.share

    def _tell_time(self) -> None:
        """Let operators say what time alone has to say."""
        now = self.clock.now()
        for node in filter(_goes_on, self._timed):
            self.graph.cycle.current = node
            node.on_time(now)
        self.graph.cycle.current = None
        self.graph.drain()

    # --- when nothing is delivered ---------------------------------------------------------------

    def due(self) -> int | None:
        """When time alone will have something to say, in microseconds; None: never."""
        times = [self.enabling.due(self._awake)]
        times += [node.operator.due() for node in self._timed if _goes_on(node)]
        return min((each for each in times if each is not None), default=None)

    @property
    def _awake(self) -> list[Component]:
        """The parts of the graph whose queries are not paused."""
        return [each for each in self.graph.components if not each.held]

    def look_at_clock(self) -> None:
        """Time has passed."""
        self.enabling.look(self._awake)
        if self._timed:
            self._tell_time()
        for component in self.graph.components:
            component.flush()

    def close_all(self) -> None:
        """Close what is open, because nothing more is expected: by a promise if that is possible,
        so that somebody can go on later, or else by the end of the streams."""
        closed: dict[str, int | str] = {}
        for query, outlet in zip(self.queries, self.outlets, strict=True):
            scans = [scan for scan in self.scans if outlet in scan.outlets]
            reach = closing_reach(query)
            high = max((scan.ingest.high for scan in scans), default=BEGINNING)
            last = min((last_tick(scan.ingest.stream) for scan in scans), default=0)
            for scan in scans:
                if reach is None or high + reach > last:  # no value says such a promise
                    closed[scan.name] = "ended"
                elif high != BEGINNING and closed.get(scan.name) != "ended":
                    bound = int(high) + reach
                    closed[scan.name] = max(bound, int(closed.get(scan.name, bound)))
        self.closed |= closed
        for scan in self.scans:
            told = closed.get(scan.name)
            if told == "ended":
                self.end(scan)
            elif told is not None:
                scan.close_below(int(told))
        self.graph.drain()

    def close(self) -> None:
        """Everything that was released has gone to the sinks, and nothing follows."""
        for outlet in self.outlets:
            outlet.end()

    # --- what has become of it -------------------------------------------------------------------

    def account(self, outlet: Outlet) -> Account:
        read = sum(
            scan.read - scan.outlets[outlet] for scan in self.scans if outlet in scan.outlets
        )
        return Account(read, outlet.late, outlet.rejected)

    def total(self, outlet: Outlet) -> Account:
        """What this run and those before it have counted."""
        own, before = self.account(outlet), self.before.get(outlet)
        return own if before is None else own.plus(before)

    def open_results(self, outlet: Outlet) -> OpenResults:
        """What has been begun for an outlet and not been given out."""
        nodes = self.graph.queries[outlet].operators
        return reduce(or_, (node.operator.open_results() for node in nodes), NOTHING_OPEN)

    def operators(self, outlet: Outlet) -> list[OperatorStatus]:
        """How the operators of an outlet are doing, from the sink to the sources."""
        return [node.measured.status() for node in self.graph.queries[outlet].operators]

    def status(
        self, names: Mapping[Outlet, str], dropped: Mapping[str, int] | None = None
    ) -> GraphStatus:
        """How the nodes are doing; `names` are those of the queries."""
        return graph_status(self.graph, names, dropped, self.adapting.decisions)

    # --- rows that wait for their order ----------------------------------------------------------

    def put_in_order(self, number: int) -> OperatorNode:
        """Let the rows of a query wait for their order behind a plan that has them in order by
        itself: rows of an earlier plan may be waiting there."""
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
        """Nothing waits there any more."""
        (outlet,) = order.outlets
        self.graph.take_out(order, outlet)


def _goes_on(node: OperatorNode) -> bool:
    """Whether its queries are not paused."""
    return node.component is None or not node.component.held


def _can_change(placed: PlacedQuery) -> bool:
    """Whether nothing has come to a query, and nothing of it is saved."""
    return not placed.lasting and not any(source.begun for source in placed.sources)
