"""Workload A over 4 million events in 20 micro-batches: windows fill up, and old ones go."""

from __future__ import annotations

from functools import partial

from benchmarks.result import Result
from benchmarks.spark.comparing import bar_plot, row, time_bar
from benchmarks.spark.contest import QUICK, contest
from benchmarks.workloads import A, Workload, events

TIMES_FASTER = 4.0


def run(quick: bool = False) -> Result:
    count, cuts = (QUICK, 2) if quick else (4_000_000, 20)
    workload = Workload(A.name, 60, 1) if quick else A
    found = contest(workload, events(count), cuts, rounds=1)
    what = f"A, {count:,} events in {cuts} micro-batches"
    rows = [row(what, count, found)]
    bars = [time_bar(what, TIMES_FASTER, found)]
    plot = partial(bar_plot, "Count and sum per key, RANGE 600 s, SLIDE 10 s", rows)
    return Result("four_million", what, rows, found.agreed, bars, plot)
