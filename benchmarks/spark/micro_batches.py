"""Workloads A and B over 1 million events, in one and in ten micro-batches; the state of A."""

from __future__ import annotations

from functools import partial

from benchmarks.result import Bar, Result, Row
from benchmarks.spark.comparing import bar_plot, row, time_bar
from benchmarks.spark.contest import QUICK, contest
from benchmarks.workloads import A, B, Workload, events

TIMES_FASTER = {  # in one micro-batch, in several
    ("A", False): 6.0,
    ("A", True): 3.0,
    ("B", False): 0.9,
    ("B", True): 0.9,
}


def run(quick: bool = False) -> Result:
    count, rounds = (QUICK, 1) if quick else (1_000_000, 3)
    table = events(count)
    rows: list[Row] = []
    bars: list[Bar] = []
    agreed: dict[str, int] = {}
    for workload in (A, B):
        for cuts in (1, 2) if quick else (1, 10):
            found = contest(_fitting(workload, quick), table, cuts, rounds)
            letter = workload.name[0]
            what = f"{letter} in {cuts} micro-batch{'es' * (cuts > 1)}"
            rows.append(row(what, count, found))
            bars.append(time_bar(what, TIMES_FASTER[letter, cuts > 1], found))
            agreed |= {f"{what}: {name}": size for name, size in found.agreed.items()}
            if letter == "A":
                bars.append(Bar(f"{what}: state on disk against Spark's", 0.2, found.state_ratio))
    title = f"{count:,} events: RANGE 600 s, SLIDE 10 s (A) and tumbling 10 s (B), 1,000 keys"
    plot = partial(bar_plot, "Count and sum per key in micro-batches", rows)
    return Result("micro_batches", title, rows, agreed, bars, plot)


def _fitting(workload: Workload, quick: bool) -> Workload:
    """With few events, windows have to be short so that some of them close."""
    if not quick:
        return workload
    return Workload(workload.name, workload.range // 10, workload.slide // 10)
