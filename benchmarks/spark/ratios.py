"""RANGE/SLIDE from 1 to 360: Spark counts an event in every window, Penstock in one pane."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import plotting
from benchmarks.result import Result, Row
from benchmarks.spark.comparing import row
from benchmarks.spark.contest import QUICK, contest
from benchmarks.workloads import Workload, events

RATIOS = (1, 6, 60, 360)
SLIDE = 1  # seconds
CUTS = 2


def run(quick: bool = False) -> Result:
    count, ratios = (QUICK, RATIOS[:2]) if quick else (200_000, RATIOS)
    table = events(count)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for ratio in ratios:
        found = contest(Workload(f"{ratio}", ratio * SLIDE, SLIDE), table, CUTS, rounds=1)
        rows.append({"RANGE/SLIDE": ratio, **row(f"RANGE {ratio} s, SLIDE 1 s", count, found)})
        agreed |= {f"{ratio}: {name}": size for name, size in found.agreed.items()}
    title = f"{count:,} events in {CUTS} micro-batches, SLIDE {SLIDE} s"
    return Result("spark_ratios", title, rows, agreed, plot=partial(plot, rows))


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Overlapping windows on Spark") as (axis,):
        for name, colour in (("Penstock", "C0"), ("Spark", "0.5")):
            times = [each[f"{name} s"] for each in rows]
            axis.plot([each["RANGE/SLIDE"] for each in rows], times, "o-", color=colour, label=name)
        axis.set(xscale="log", yscale="log", xlabel="RANGE/SLIDE", ylabel="seconds")
        axis.legend(frameon=False)
