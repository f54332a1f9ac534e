"""Ten minutes of bursts on a live engine, with queries that come and go: memory stays flat.

The process is `bursts_process.py`.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks import plotting
from benchmarks.result import Bar, Result, Row

MINUTES = 10
GROWTH = 1.1  # of the memory, from the first look to the last


def run(quick: bool = False) -> Result:
    seconds, looks = (2, 2) if quick else (60 * MINUTES, MINUTES)
    command = [sys.executable, "-m", "benchmarks.bursts_process", str(seconds), str(looks)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    told = [map(int, line.split()) for line in done.stdout.splitlines()]
    rows: list[Row] = [
        {"seconds": passed, "rows read": read, "MB": kilobytes / 1024}
        for passed, read, kilobytes in told
    ]
    grown = rows[-1]["MB"] / rows[0]["MB"]
    what = f"memory after {seconds:,} s of bursts, against {seconds // looks} s"
    bars = [Bar(what, GROWTH, grown)]
    title = f"Bursts of rows for {seconds:,} s on a live engine: resident memory"
    looked = {f"look {number}": row["rows read"] for number, row in enumerate(rows, start=1)}
    return Result("bursts", title, rows, looked, bars, partial(plot, rows))


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Bursts on a live engine: memory stays flat") as (axis,):
        axis.plot([row["seconds"] / 60 for row in rows], [row["MB"] for row in rows], marker="o")
        axis.set(xlabel="minutes", ylabel="resident memory (MB)", ylim=(0, None))
