"""Workload S: how long a tuple takes that comes alone, through a filter, a projection and a sliding
count of 1,000 groups.

Measured where the source is read: from handing out a tuple until the next one is asked for.  Every
10 s of the stream a window of up to 1,000 rows is released as well; those are the last percentile.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result
from benchmarks.throughput import answered
from benchmarks.workloads import S, events

LIMIT = 100.0  # µs, for the median
SHARES = (50, 90, 99, 99.9)
Times = npt.NDArray[np.float64]


class Timed:
    """Batches that are read again for every run, and how long each took the last time."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.batches = batches
        self.wall: list[int] = []
        self.processor: list[int] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.wall, self.processor = [], []
        for batch in self.batches:
            wall, processor = perf_counter_ns(), thread_time_ns()
            yield batch
            self.processor.append(thread_time_ns() - processor)
            self.wall.append(perf_counter_ns() - wall)


def run(quick: bool = False) -> Result:
    before, count, rounds = (2_000, 300, 1) if quick else (200_000, 20_000, 3)
    whole = events(before + count).combine_chunks().to_batches()[0]
    singles = [whole.slice(before + row, 1) for row in range(count)]
    alone = Timed([whole.slice(0, before), *singles])  # all groups first
    query = S.query(alone)
    taken: list[tuple[Times, Times]] = []
    for _ in range(rounds):
        found = answered(query)
        taken.append((microseconds(alone.wall), microseconds(alone.processor)))
    wall, processor = min(taken, key=lambda each: float(np.median(each[0])))
    agreed = agree({"all at once": answered(S.query([whole])), "one by one": found})
    rows = [
        {
            "percentile": f"p{share:g}",
            "wall clock µs": float(np.percentile(wall, share)),
            "processor µs": float(np.percentile(processor, share)),
        }
        for share in SHARES
    ]
    bars = [Bar("S, a tuple alone, median", LIMIT, rows[0]["wall clock µs"], "µs")]
    title = f"S: {count:,} tuples one by one, best of {rounds} rounds"
    return Result("single_tuples", title, rows, agreed, bars, partial(plot, wall, processor))


def microseconds(nanoseconds: list[int]) -> Times:
    """Of the tuples that came alone, which follow a first batch."""
    return np.array(nanoseconds[1:]) / 1000


def plot(wall: Times, processor: Times, path: Path) -> None:
    title = "A tuple alone: filter, projection, sliding count of 1,000 groups"
    with plotting.figure(path, title) as (axis,):
        for name, times, colour in (("wall clock", wall, "C2"), ("processor", processor, "C0")):
            axis.plot(np.sort(times), np.linspace(0, 100, len(times)), color=colour, label=name)
        axis.axvline(LIMIT, color="0.5", linestyle="--", label="bar for the median")
        axis.axhline(50, color="0.8", linewidth=1)
        axis.set(xscale="log", xlabel="time per tuple (µs)", ylabel="tuples that took less (%)")
        axis.legend()
