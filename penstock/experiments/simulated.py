"""The engine on a clock that only moves when an operator works, or when everybody waits.

The graph, its cycle, its rules and its operators are those of every run; what is simulated is how
long they take.  So hours pass in seconds, and every run is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.operator_node import OperatorNode
from penstock.engine.run import LocalRun
from penstock.experiments.observed import Observed
from penstock.experiments.trial import NUMBERED, Trial
from penstock.experiments.tuple_times import TupleTimes
from penstock.model.arrays import Ints
from penstock.model.clock import ManualClock
from penstock.operators.batch import Batch
from penstock.operators.measured import Measured
from penstock.operators.operator import Item, Progress
from penstock.sources.source import Chunk

_BEGIN = 1_000_000_000  # a moment that no tuple is before


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds that it takes to let a tuple enter, to handle one in an operator, and to look at
    progress in an operator; `free` are the kinds of operators that take none."""

    entry: int = 0
    tuple: int = 20
    progress: int = 0
    free: frozenset[str] = frozenset()


def simulated(trial: Trial, arrivals: TupleTimes, costs: Costs) -> Observed:
    return _Simulation(trial, arrivals, costs).observed()


class _Charged(Measured):
    """Lets time pass when an operator is called, before what it has made goes anywhere."""

    def __init__(self, measured: Measured, clock: ManualClock, costs: Costs) -> None:
        super().__init__(measured.operator, measured.name)
        self._clock = clock
        self._costs = costs

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        self._clock.advance(self._costs.tuple * batch.num_rows)
        return super().on_batch(port, batch)

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        self._clock.advance(self._costs.progress)
        return super().on_progress(port, progress)


class _Simulation:
    def __init__(self, trial: Trial, arrivals: TupleTimes, costs: Costs) -> None:
        self._clock = clock = ManualClock(_BEGIN)
        self._arrivals = arrivals
        self._costs = costs
        plan, outlet, _ = trial.placed(clock, self._see)
        self._run = LocalRun([plan], [outlet], clock, scheduling=trial.scheduling)
        for node in self._run.graph.operators:
            if node.measured.name not in costs.free:
                node.measured = _Charged(node.measured, clock, costs)
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
        """What has come by now, as the scheduler would find it."""
        upto = int(np.searchsorted(times, self._clock.at, "right"))
        for number in range(self._next, upto):
            scan = self._scans[self._arrivals.streams[number]]
            self._run.deliver(scan, Chunk(batch.slice(number, 1)))
        self._clock.advance(self._costs.entry * (upto - self._next))
        self._next = upto
        self._count(scan)
        self._run.work(self._run.graph.component_of(scan))

    def _wait(self, until: int) -> None:
        """Nothing comes until then; the run looks at the clock when it wants to."""
        while (due := self._run.due()) is not None and due < until:
            self._pass(due)
            self._run.look_at_clock()
        self._pass(until)

    def _pass(self, until: int) -> None:
        """Time in which nobody does anything."""
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
