"""A run of one or several queries: operators that are fed chunks of their sources.

The run says what follows from a chunk; when which source is read is the driver's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import reduce
from operator import or_

from penstock.engine.in_step import Meeting, keeps_for_others, meetings, met_in
from penstock.engine.reading import Reading
from penstock.engine.shared_scan import ItemTarget, SharedScan
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING
from penstock.operators.batch import Batch
from penstock.operators.build import operator_for
from penstock.operators.joins.lookup import LookupOperator
from penstock.operators.measured import Measured, OperatorStatus
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Item, LateRows, Operator, Progress
from penstock.optimizer.revisions import asked_of_results
from penstock.optimizer.share_readings import check_one_scan_will_do
from penstock.physical.node import OperatorKind, Ordering, PhysicalNode, Port
from penstock.physical.plan import PhysicalPlan
from penstock.plan.closing import closing_reach, last_tick
from penstock.plan.joins import Lookup
from penstock.plan.stateless import Scan
from penstock.promises.ingest import Ingest
from penstock.runs.answer import Account
from penstock.runs.outlet import Outlet
from penstock.runs.tables import Tables
from penstock.sources.files import FileSource
from penstock.sources.rejects import RejectLog
from penstock.sources.source import Chunk, can_be_read_again


@dataclass(frozen=True, slots=True)
class PlacedOperator:
    """An operator at its place: what it yields goes on to the next one."""

    name: str  # the way from the root of the plan, stable from run to run
    operator: Operator
    next: ItemTarget
    port: int  # of the next one
    outlet: Outlet
    measured: Measured  # the operator with counters around it
    node: PhysicalNode

    def take(self, port: int, item: Item) -> None:
        if isinstance(item, Progress):
            if self.node.whole_windows and item.groups is not None:
                item = replace(item, groups=None)
            self._hand_on(self.measured.on_progress(port, item))
        elif isinstance(item, Batch):
            self._hand_on(self.measured.on_batch(port, item))

    def on_time(self, now: int) -> None:
        self._hand_on(self.measured.on_time(now))

    def _hand_on(self, made: Iterable[Item]) -> None:
        for each in made:
            if isinstance(each, LateRows):
                self.outlet.on_late(each.batch)
            else:
                self.next.take(self.port, each)


@dataclass(slots=True)
class _Exit:
    outlet: Outlet
    order: PlacedOperator | None = None  # where rows wait that an earlier plan put in order

    def take(self, port: int, item: Item) -> None:
        if self.order is not None:
            self.order.take(port, item)
        elif isinstance(item, Batch):
            self.outlet.on_rows(item)


class LocalRun:
    """Operators for some queries, with their outlets in the same order."""

    def __init__(
        self,
        plans: Sequence[PhysicalPlan],
        outlets: Sequence[Outlet],
        clock: Clock,
        strict: bool = False,
        resumable: bool = False,
        follow: bool = False,
    ) -> None:
        """A `resumable` run can be saved and gone on with; one that is to `follow` its files looks
        for more of them."""
        self.queries = tuple(plan.query for plan in plans)
        self.outlets = tuple(outlets)
        self.before: dict[Outlet, Account] = {}  # what earlier runs have counted
        self.closed: dict[str, int | str] = {}  # by a final run: bounds by stream
        self._resumable = resumable
        self._follow = follow
        self.scans: list[SharedScan] = []
        self.stages: list[PlacedOperator] = []  # from the sinks to the sources, query by query
        self._unfilled: list[tuple[PlacedOperator, LookupOperator, Lookup]] = []
        self.clock = clock
        self._strict = strict
        self._by_stream: dict[tuple[int, int], SharedScan] = {}
        met: list[Meeting] = []
        self._kept_for: list[tuple[SharedScan, ...]] = []
        self._exits: list[_Exit] = []
        for number, (plan, outlet) in enumerate(zip(plans, outlets, strict=True)):
            query, root = plan.query, plan.root
            check_one_scan_will_do(query)
            self._seen: dict[int, int] = {}  # how often this query has asked for a stream
            self._exits.append(_Exit(outlet))
            target: ItemTarget = self._exits[-1]
            if root.operator is OperatorKind.ORDER:
                target = self._place(root, f"{number}/order", target, 0, outlet)
                (root,) = root.inputs
            self._build(root, f"{number}", target, 0, outlet, met)
        self.meetings = meetings(self.scans, met)  # what is read together
        self._timed = [stage for stage in self.stages if stage.operator.due() is not None]

    def read_tables(self) -> None:
        """Let the operators that look tuples up in tables have these; once, before any tuple."""
        waiting, self._unfilled = self._unfilled, []
        tables = Tables(self.clock, self._strict)
        told: set[tuple[int, Outlet]] = set()
        for stage, operator, lookup in waiting:
            operator.fill(tables.rows(lookup))
            for table, rejects in tables.rejects(lookup):
                if rejects and (table, stage.outlet) not in told:
                    stage.outlet.on_rejects(rejects)
                told.add((table, stage.outlet))

    def feed(self, scan: SharedScan, chunk: Chunk) -> None:
        """Take in what a source has delivered; no rows at all mean that it had nothing to say."""
        if self._unfilled:
            self.read_tables()
        ingest = scan.ingest
        scan.caught_up = ingest.followed and not chunk.batch.num_rows and chunk.seen is None
        if chunk.batch.num_rows == 0 and ingest.live:
            self._pass(scan, ingest.on_silence())
        else:
            self._pass(scan, ingest.on_chunk(chunk))
        if scan.reading is not None:
            scan.reading.fed(chunk)
        if chunk.seen is not None:
            on_part = ingest.on_part_end if chunk.seen.whole else ingest.on_part_begin
            self._pass(scan, on_part(chunk.part))
        if self._timed:
            now = self.clock.now()
            for stage in self._timed:
                stage.on_time(now)
        if ingest.live:
            for outlet in scan.outlets:
                outlet.flush()

    def end(self, scan: SharedScan) -> None:
        if self._unfilled:
            self.read_tables()
        self._pass(scan, scan.ingest.on_end())

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
                self._pass(scan, scan.ingest.close_below(int(told)))

    def close(self) -> None:
        """Everything that was released has gone to the sinks, and nothing follows."""
        for outlet in self.outlets:
            outlet.end()

    def account(self, outlet: Outlet) -> Account:
        read = sum(scan.read for scan in self.scans if outlet in scan.outlets)
        return Account(read, outlet.late, outlet.rejected)

    def total(self, outlet: Outlet) -> Account:
        """What this run and those before it have counted."""
        own, before = self.account(outlet), self.before.get(outlet, Account(0, 0, 0))
        return Account(*(a + b for a, b in zip(astuple(own), astuple(before), strict=True)))

    def open_results(self, outlet: Outlet) -> OpenResults:
        """What has been begun for an outlet and not been given out."""
        stages = [stage for stage in self.stages if stage.outlet is outlet]
        return reduce(or_, (stage.operator.open_results() for stage in stages), NOTHING_OPEN)

    def _pass(self, scan: SharedScan, items: Iterator[Item]) -> None:
        for item in items:
            for tap in scan.taps:
                tap.take(item)
        rejects = scan.log.take()
        if rejects:
            if scan.reading is not None:
                scan.reading.told(rejects)
            for outlet in scan.outlets:
                outlet.on_rejects(rejects)

    def _build(
        self,
        node: PhysicalNode,
        name: str,
        target: ItemTarget,
        port: int,
        outlet: Outlet,
        met: list[Meeting],
    ) -> list[SharedScan]:
        """The operators of a node and of all below it; the scans that they are fed from."""
        if isinstance(node.logical, Scan):
            scan = self._scan(node.logical)
            scan.tap(node.logical, target, port, outlet)
            return [scan]
        stage = self._place(node, name, target, port, outlet)
        below = [
            self._build(each, f"{name}/{number}", stage, number, outlet, met)
            for number, each in enumerate(node.inputs)
        ]
        met += met_in(node, below)
        scans = list(dict.fromkeys(scan for each in below for scan in each))
        if keeps_for_others(node):
            self._kept_for.append(tuple(scans))
        return scans

    def waited_for(self, scan: SharedScan) -> list[SharedScan]:
        """The other scans that tuples of this one are kept for."""
        return [each for scans in self._kept_for if scan in scans for each in scans if each != scan]

    def _place(
        self, node: PhysicalNode, name: str, target: ItemTarget, port: int, outlet: Outlet
    ) -> PlacedOperator:
        operator = operator_for(node, self.clock)
        measured = Measured(operator, node.operator.value)
        stage = PlacedOperator(name, operator, target, port, outlet, measured, node)
        self.stages.append(stage)
        if isinstance(operator, LookupOperator) and isinstance(node.logical, Lookup):
            self._unfilled.append((stage, operator, node.logical))
        return stage

    def put_in_order(self, number: int) -> PlacedOperator:
        """Let the rows of a query wait for their order behind a plan that has them in order by
        itself: rows of an earlier plan may be waiting there."""
        exit_, query = self._exits[number], self.queries[number]
        asked = asked_of_results(query)
        below = next(stage.node for stage in self.stages if stage.name == f"{number}")
        node = PhysicalNode(
            query, OperatorKind.ORDER, (Port(below, keys=()),), asked, Ordering.SORTED
        )
        target = _Exit(exit_.outlet)
        exit_.order = self._place(node, f"{number}/order", target, 0, exit_.outlet)
        first = next(n for n, stage in enumerate(self.stages) if stage.outlet is exit_.outlet)
        self.stages.insert(first, self.stages.pop())  # it is the nearest to the sink
        return exit_.order

    def leave_at_once(self, order: PlacedOperator) -> None:
        """Nothing waits there any more."""
        self.stages = [stage for stage in self.stages if stage is not order]
        for exit_ in self._exits:
            if exit_.order is order:
                exit_.order = None

    def operators(self, outlet: Outlet) -> list[OperatorStatus]:
        """How the operators of an outlet are doing, from the sink to the sources."""
        return [stage.measured.status() for stage in self.stages if stage.outlet is outlet]

    def _scan(self, node: Scan) -> SharedScan:
        """One scan for all queries.  A query that asks twice gets two, one read after the other, as
        the definition says; what is live, or an iterator, can be read only once."""
        stream = id(node.stream)
        times = self._seen.get(stream, 0)
        self._seen[stream] = times + 1
        log = RejectLog(self._strict)
        made = SharedScan(node.stream.name, Ingest(node, self.clock, log), log)
        source = node.stream.source
        made.ingest.followed = self._follow and isinstance(source, FileSource)
        if source is not None and (self._resumable or made.ingest.followed):
            made.reading = Reading(source)
        once = made.ingest.live or not can_be_read_again(source)
        key = (stream, 0 if once else times)
        if key in self._by_stream:  # read once, so it has to suit all of them
            known = self._by_stream[key].ingest
            known.room = known.room.meet(node.room)
        if key not in self._by_stream:
            self._by_stream[key] = made
            self.scans.append(made)
            if times and not once:
                made.name = f"{made.name} {times + 1}"
        return self._by_stream[key]
