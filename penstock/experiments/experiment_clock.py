"""The clocks of experiments: a simulated one, and the clock on the wall.

The simulated clock only moves when an operator works, or when all wait. The graph, its cycle, its
rules and its operators are those of every run; what is simulated is how long they take. So hours
pass in seconds, and every run is the same."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.experiments.trial import (
    NUMBERED,
    SECOND,
    Costs,
    Observed,
    Trial,
    TupleTimes,
    most_inside,
)
from penstock.io.sources.source import Chunk
from penstock.local.graph.node import GraphNode
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import LocalJob
from penstock.model.arrays import Ints
from penstock.model.clock import ManualClock, SystemClock

_BEGIN = 1_000_000_000  # a moment that no tuple is before


def simulated(trial: Trial, arrivals: TupleTimes, costs: Costs) -> Observed:
    return _Simulation(trial, arrivals, costs).observed()


class _Simulation:
    def __init__(self, trial: Trial, arrivals: TupleTimes, costs: Costs) -> None:
        self._clock = clock = ManualClock(_BEGIN)
        self._arrivals = arrivals
        self._costs = costs
        plan, outlet, _ = trial.placed(clock, self._see)
        self._run = LocalRun([plan], [outlet], clock, scheduling=trial.scheduling)
        costs.charge(self._run.graph.operators, clock.advance)
        self._run.graph.watch(self._count)
        scans = {scan.ingest.stream.name: scan for scan in self._run.scans}
        self._scans = [scans[name] for name in trial.streams]
        self._sensitive = [node for node in self._run.graph.operators if node.sensitive]
        self._rows: list[tuple[float, Ints]] = []
        self._next = 0  # the number of the next tuple
        self._peak = 0
        self._idle: dict[OperatorNode, int] = {}

    def observed(self) -> Observed:
        arrivals = self._arrivals
        begun = self._clock.at
        times = begun + arrivals.times
        batch = pa.record_batch([pa.array(range(len(times)), pa.int64())], schema=NUMBERED)
        while self._next < len(times):
            self._wait(int(times[self._next]))
            self._enter(times, batch)
        self._wait(begun + arrivals.duration)
        took = self._clock.at - begun
        idle = max(self._idle.values(), default=0)
        rows = [(when - begun, numbers) for when, numbers in self._rows]
        return Observed.of(arrivals, rows, self._peak, idle, took)

    def _enter(self, times: Ints, batch: pa.RecordBatch) -> None:
        """Deliver the tuples that have come by now, as the scheduler would find them."""
        upto = int(np.searchsorted(times, self._clock.at, "right"))
        for number in range(self._next, upto):
            scan = self._scans[self._arrivals.streams[number]]
            self._run.deliver(scan, Chunk(batch.slice(number, 1)))
        self._clock.advance(self._costs.entry * (upto - self._next))
        self._next = upto
        self._count(scan)
        self._run.work(self._run.graph.component_of(scan))

    def _wait(self, until: int) -> None:
        """Let time pass until then without arrivals; the run works when its clock asks for it."""
        while (due := self._run.due()) is not None and due < until:
            self._idle_until(due)
            self._run.look_at_clock()
        self._idle_until(until)

    def _idle_until(self, until: int) -> None:
        """Let time pass in which no operator works, and count it for the idle-waiting ones."""
        passed = until - self._clock.at
        if passed > 0:
            for component in self._run.graph.components:
                for node in component.waiting_idly:
                    self._idle[node] = self._idle.get(node, 0) + passed
            self._clock.advance(passed)

    # --- what is seen ----------------------------------------------------------------------------

    def _see(self, batch: pa.RecordBatch) -> None:
        self._rows.append((self._clock.at, batch.column("v").to_numpy()))

    def _count(self, node: GraphNode) -> None:  # noqa: ARG002
        graph = self._run.graph
        delivered = self._next - sum(scan.ingest.read for scan in graph.sources)
        waiting = sum(node.output.rows for node in graph.nodes)
        held = sum(node.operator.rows_held() for node in self._sensitive)
        self._peak = max(self._peak, delivered + waiting + held)


# Real time: one thread feeds the tuples, and the engine has a thread of its own.

_NANOSECONDS = 1000  # in a microsecond


def in_real_time(trial: Trial, arrivals: TupleTimes, costs: Costs | None = None) -> Observed:
    """Run a trial by the clock on the wall. The times observed are those when tuples were really
    emitted. With `costs`, operators sleep that long in addition to the work that they do."""
    clock = SystemClock()
    rows: list[tuple[int, Ints]] = []
    plan, outlet, sources = trial.placed(
        clock, lambda batch: rows.append((time.perf_counter_ns(), batch.column("v").to_numpy()))
    )
    job = LocalJob([plan], [outlet], clock, scheduling=trial.scheduling)
    spending = _Spending()
    if costs is not None:
        costs.charge(job.run.graph.operators, spending.spend)
    job.start()
    count = len(arrivals)
    batch = pa.record_batch([pa.array(range(count), pa.int64())], schema=NUMBERED)
    handed = arrivals.times.copy()
    begun = time.perf_counter_ns()
    for number, (moment, stream) in enumerate(zip(arrivals.times, arrivals.streams, strict=True)):
        due = begun + int(moment) * _NANOSECONDS
        if (wait := due - time.perf_counter_ns()) > 0:
            time.sleep(wait / (_NANOSECONDS * SECOND))
        piece = batch.slice(number, 1)
        spending.handed = now = time.perf_counter_ns()
        handed[number] = (now - begun) // _NANOSECONDS
        sources[stream].said.put(piece)
    rest = arrivals.duration / SECOND - (time.perf_counter_ns() - begun) / 1e9
    time.sleep(max(0.0, rest))
    took = (time.perf_counter_ns() - begun) / _NANOSECONDS
    idle = max((node.measured.flow.waiting for node in job.run.stages), default=0)
    left = [((when - begun) / _NANOSECONDS, numbers) for when, numbers in rows]
    job.stop()
    job.wait()
    told = TupleTimes(handed, arrivals.streams, arrivals.duration)
    return Observed.of(told, left, most_inside(told, left), idle / _NANOSECONDS, took)


class _Spending:
    """Spends the time that operators take by sleeping: working would take longer on a busy machine.
    There, a sleeper is woken too late as well, and one delay would add up over all steps of a
    burst. So a step begins when the one before it was to end, unless its tuple came later."""

    def __init__(self) -> None:
        self.handed = 0  # when the last tuple came
        self._until = 0

    def spend(self, microseconds: int) -> None:
        if microseconds:
            self._until = max(self._until, self.handed) + microseconds * _NANOSECONDS
            wait = self._until - time.perf_counter_ns()
            if wait > 0:
                time.sleep(wait / (_NANOSECONDS * SECOND))


# Conduct of an experiment: on the simulated clock, or for a while by the clock on the wall.

COSTS = Costs(entry=70, tuple=25, progress=20)
"""What the engine takes on a machine of today, rounded: tuples that come alone, in microseconds."""


@dataclass(frozen=True, slots=True)
class Conduct:
    """Chooses how experiments are run: simulated or in real time, in full size or quickly."""

    real_time: bool = False
    quick: bool = False  # enough to see the shape

    def seconds(self, full: float, small: float, real: float) -> float:
        """Seconds for which tuples come."""
        return real if self.real_time else small if self.quick else full

    def run(self, trial: Trial, arrivals: TupleTimes, costs: Costs = COSTS) -> Observed:
        if self.real_time:
            return in_real_time(trial, arrivals)
        return simulated(trial, arrivals, costs)

    def run_slowly(
        self, trial: Trial, arrivals: TupleTimes, times: int, costs: Costs = COSTS
    ) -> Observed:
        """Run in real time in slow motion, `times` as slow, where operators sleep as long as they
        are said to take: their own work is little compared with that."""
        if self.real_time:
            return in_real_time(trial, arrivals.slowed(times), costs.slowed(times))
        return simulated(trial, arrivals, costs)
