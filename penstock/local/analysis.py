"""EXPLAIN ANALYZE in process: a run that is measured.

Every operator is measured for the work it does and the most that it keeps; equation 3 then gives
the time of a tuple along each path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

from penstock.errors import EngineError
from penstock.io.sinks.sink import Discarded
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.graph.topology import PlacedQuery
from penstock.local.graph_options import Scheduling
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import Scheduler
from penstock.model.clock import Clock
from penstock.plan.nodes.node import Node, Scan
from penstock.plan.physical import PhysicalNode, PhysicalPlan
from penstock.runs.answer import NodeWork, Outlet

_LOOKS = 100  # at what is kept, before they become half as frequent


@dataclass
class MeasuredNode:
    """An operator, or a source if it has none, and the most tuples and bytes that it has kept."""

    planned: PhysicalNode
    rows: int = 0
    node: OperatorNode | None = None
    most_kept: int = 0
    most_bytes: int = 0
    inputs: list[MeasuredNode] = field(default_factory=list)

    def walk(self) -> Iterator[MeasuredNode]:
        yield self
        for each in self.inputs:
            yield from each.walk()

    def different(self) -> Iterator[MeasuredNode]:
        """Yield each node once, including those that several others read."""
        yield from {id(each): each for each in self.walk()}.values()

    @property
    def current(self) -> PhysicalNode:
        """Plan node as it runs at the end, because operators may have been exchanged."""
        own = self.planned if self.node is None else self.node.node
        below = zip(own.ports, self.inputs, strict=True)
        return replace(own, ports=tuple(replace(port, input=each.current) for port, each in below))

    @property
    def work(self) -> NodeWork:
        if self.node is None:
            return NodeWork(rows_out=self.rows, is_source=True)
        flow = self.node.measured.flow
        size = self.most_bytes if self.node.node.stateful else None
        return NodeWork(flow.rows_in, flow.rows_out, flow.nanoseconds, self.most_kept, size)

    def factor(self, port: int) -> float | None:
        """f: rows that leave for a tuple of one port."""
        if self.node is None:
            return 1.0
        flow, own = self.node.measured.flow, self.node.measured.ports.get(port)
        if own is None or not own.rows:
            return None
        by_progress = flow.rows_out - sum(e.results for e in self.node.measured.ports.values())
        return own.results / own.rows + by_progress / flow.rows_in

    def time(self, port: int) -> float | None:
        """τ: nanoseconds for a tuple of one port.  What is done because of progress is shared by
        all."""
        if self.node is None:
            return 0.0
        flow, own = self.node.measured.flow, self.node.measured.ports.get(port)
        if own is None or not own.rows:
            return None
        rest = flow.nanoseconds - sum(e.nanoseconds for e in self.node.measured.ports.values())
        return own.nanoseconds / own.rows + rest / flow.rows_in


@dataclass(frozen=True)
class Analyzed:
    """Measurements of a run that has come to its end: one tree of measured nodes, and the time it
    took."""

    plan: PhysicalPlan
    top: MeasuredNode
    run: LocalRun
    outlet: Outlet
    nanoseconds: int

    def stream_times(self) -> list[float | None]:
        """Time T of every stream that is read, in the order of the plan: the time of a tuple in all
        operators on its path (equation 3, with measured values)."""
        return list(_times(self.top))


def analyze(plan: PhysicalPlan, clock: Clock, strict: bool, scheduling: Scheduling) -> Analyzed:
    """Run a plan to the end of its streams and measure its operators."""
    outlet = Outlet(plan.query, Discarded())
    run = LocalRun([plan], [outlet], clock, strict, scheduling=scheduling)
    live = [scan.name for scan in run.scans if scan.ingest.live]
    if live:
        raise EngineError(
            f"EXPLAIN ANALYZE runs a query to its end, and {', '.join(live)} may go on for ever",
            expected="streams of files, or of data in memory",
            hint="penstock top, or started.graph_status()",
        )
    placed = run.graph.queries[outlet]
    top = _Measuring(plan, placed).measured(plan.root)
    sampler, spent, begun = _StateSampler(top), 0, perf_counter_ns()
    for _ in Scheduler(run).steps():
        before = perf_counter_ns()
        sampler.look()
        spent += perf_counter_ns() - before
    took = perf_counter_ns() - begun - spent
    _count_reads(top, placed)
    return Analyzed(plan, top, run, outlet, took)


class _Measuring:
    """Nodes of the graph stand in the order of the plan, each before those that feed it; what is
    computed once for several that ask for it stands where it is asked for first."""

    def __init__(self, plan: PhysicalPlan, placed: PlacedQuery) -> None:
        self._shared = plan.shared
        self._operators = iter(placed.operators)
        self._once: dict[Node, MeasuredNode] = {}

    def measured(self, node: PhysicalNode) -> MeasuredNode:
        if isinstance(node.logical, Scan):
            return MeasuredNode(node)
        again = self._once.get(node.logical)
        if again is not None and again.planned == node:
            return again
        made = MeasuredNode(node, node=next(self._operators))
        made.inputs = [self.measured(each) for each in node.inputs]
        if node.logical in self._shared:
            self._once.setdefault(node.logical, made)
        return made


def _count_reads(top: MeasuredNode, placed: PlacedQuery) -> None:
    reads = [each for each in top.different() if each.node is None]
    for each, source in zip(reads, placed.asked, strict=True):
        each.rows = source.flow.rows_out


class _StateSampler:
    """Samples the state that operators keep, less and less often, because sampling takes time."""

    def __init__(self, top: MeasuredNode) -> None:
        self._nodes = [each for each in top.different() if each.node is not None]
        self._steps, self._every, self._looks = 0, 1, 0

    def look(self) -> None:
        self._steps += 1
        if self._steps % self._every:
            return
        self._looks += 1
        if self._looks == _LOOKS:
            self._every, self._looks = self._every * 2, 0
        for each in self._nodes:
            assert each.node is not None
            held = each.node.operator.metrics()
            each.most_kept = max(each.most_kept, held.rows)
            each.most_bytes = max(each.most_bytes, held.bytes)


def _times(node: MeasuredNode) -> Iterator[float | None]:
    """Yield, for every stream below a node, the time of a tuple up to and including that node."""
    for total, _ in _paths(node):
        yield total


def _paths(node: MeasuredNode) -> Iterator[tuple[float | None, float]]:
    """Yield, for every stream below a node, the time so far and the rows that a tuple has
    become."""
    if node.node is None:
        yield 0.0, 1.0
        return
    for port, below in enumerate(node.inputs):
        time, factor = node.time(port), node.factor(port)
        for total, made in _paths(below):
            if total is None or time is None or factor is None:
                yield None, 0.0
            else:
                yield total + made * time, made * factor
