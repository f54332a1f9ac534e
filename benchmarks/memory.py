"""Workload A: the highest memory of a process that reads 1 or 10 million events.

The process is `memory_process.py`; one that reads nothing tells what Python and its packages take.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks import plotting
from benchmarks.result import Bar, Result, Row

MILLION = 1_000_000


def run(quick: bool = False) -> Result:
    counts = (2_000, 4_000) if quick else (MILLION, 10 * MILLION)
    rows: list[Row] = []
    for count in (0, *counts):
        command = [sys.executable, "-m", "benchmarks.memory_process", str(count)]
        root = Path(__file__).parents[1]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        made, kilobytes = map(int, done.stdout.split())
        megabytes = kilobytes / 1024
        above = megabytes - (rows[0]["MB"] if rows else megabytes)
        rows.append({"events": count, "rows": made, "MB": megabytes, "MB above nothing": above})
    few, many = rows[1], rows[2]
    agreed = {"few": few["rows"], "many": many["rows"]}
    bars = [Bar("memory of A at ten times the events", 1.2, many["MB"] / few["MB"])]
    title = "A: highest resident memory, results thrown away"
    return Result("memory", title, rows, agreed, bars, partial(plot, rows))


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Workload A: memory does not grow with the input") as (axis,):
        names = ["nothing read", *(f"{row['events'] / 1e6:g} million" for row in rows[1:])]
        bars = axis.bar(names, [row["MB"] for row in rows], color=["0.6", "C2", "C2"], width=0.5)
        axis.bar_label(bars, fmt="%.0f")
        axis.set(xlabel="events read", ylabel="highest resident memory (MB)")
