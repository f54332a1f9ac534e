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
    if costs is not None:
        costs.charge(job.run.graph.operators, _spend)
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
        handed[number] = (time.perf_counter_ns() - begun) // _NANOSECONDS
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


def _spend(microseconds: int) -> None:
    """Sleeping takes as long on a busy machine as on an idle one; working does not."""
    if microseconds:
        time.sleep(microseconds / SECOND)
