"""The same by the clock on the wall: a feeding thread, and the engine in a thread of its own."""

from __future__ import annotations

import time

import pyarrow as pa

from penstock.engine.job import LocalJob
from penstock.experiments.costs import Costs
from penstock.experiments.observed import Observed, most_inside
from penstock.experiments.trial import NUMBERED, Trial
from penstock.experiments.tuple_times import SECOND, TupleTimes
from penstock.model.arrays import Ints
from penstock.model.clock import SystemClock

_NANOSECONDS = 1000  # in a microsecond


def in_real_time(trial: Trial, arrivals: TupleTimes, costs: Costs | None = None) -> Observed:
    """The times observed are those when tuples were really handed over.  With `costs`, operators
    take that beside what they take anyway."""
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
    """The time that operators take, by sleeping: somebody who works would take longer on a busy
    machine.  There, he who sleeps is woken too late as well, and what is one time too late would
    add up over all steps of a burst.  So a step begins when the one before it was to end, unless
    its tuple came later."""

    def __init__(self) -> None:
        self.handed = 0  # when the last tuple came
        self._until = 0

    def spend(self, microseconds: int) -> None:
        if microseconds:
            self._until = max(self._until, self.handed) + microseconds * _NANOSECONDS
            wait = self._until - time.perf_counter_ns()
            if wait > 0:
                time.sleep(wait / (_NANOSECONDS * SECOND))
