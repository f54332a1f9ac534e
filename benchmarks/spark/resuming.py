"""A driver that is killed and started again: how much it does twice, and how soon it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

from benchmarks import plotting
from benchmarks.result import Bar, Result, Row
from benchmarks.spark.contest import write
from benchmarks.workloads import events

CUTS = 5
KILLED_AFTER = 2  # micro-batches


def run(quick: bool = False) -> Result:
    count = 4_000 if quick else 500_000
    with TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        for part in ("in", "undisturbed", "killed"):
            (folder / part).mkdir()
        write(events(count), CUTS, folder / "in")
        undisturbed = _finish(folder, "undisturbed")
        _kill(folder, "killed")
        done = _committed(folder / "killed")
        resumed = _finish(folder, "killed")
        agreed = {part: _written(folder / part / "out") for part in ("undisturbed", "killed")}
    assert agreed["undisturbed"] == agreed["killed"], "rows were lost or doubled by a kill"
    assert 0 < done < CUTS, "it was killed too early or too late"
    first = resumed["first"]
    again = max(0, done - first["batch"])
    steady = undisturbed["steady"]
    rows: list[Row] = [
        {"what": "micro-batches committed before the kill", "found": done},
        {"what": "first micro-batch after the restart (from 0)", "found": first["batch"]},
        {"what": "its time, s", "found": first["seconds"]},
        {
            "what": "first micro-batch of an undisturbed run, s",
            "found": undisturbed["first"]["seconds"],
        },
        {"what": "a later micro-batch, s", "found": steady},
        {"what": "from starting the process to its end, s", "found": first["since_start"]},
    ]
    bars = [Bar("micro-batches whose work is done again after a kill", 1, again + 1, "")]
    title = f"A over {count:,} events in {CUTS} micro-batches, killed after {KILLED_AFTER}"
    return Result("resuming", title, rows, agreed, bars, partial(plot, rows))


def _start(folder: Path, part: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.spark.resuming_process", str(folder), part]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _finish(folder: Path, part: str) -> dict[str, Any]:
    out, _ = _start(folder, part).communicate()
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    return told


def _kill(folder: Path, part: str) -> None:
    process = _start(folder, part)
    try:
        while _committed(folder / part) < KILLED_AFTER and process.poll() is None:
            sleep(0.01)
    finally:
        process.kill()
        process.communicate()


def _committed(folder: Path) -> int:
    return len([path for path in folder.glob("checkpoint/spark/commits/*") if path.name.isdigit()])


def _written(folder: Path) -> int:
    import pyarrow.dataset as ds

    return ds.dataset(str(folder), format="parquet").count_rows()


def plot(rows: list[Row], path: Path) -> None:
    chosen = [row for row in rows if str(row["what"]).endswith(", s")]
    with plotting.figure(path, "Killed and started again", width=9) as (axis,):
        bars = axis.barh([row["what"] for row in chosen], [row["found"] for row in chosen])
        axis.bar_label(bars, fmt="%.2f", padding=3)
        axis.invert_yaxis()
        axis.set(xlabel="seconds")
        axis.margins(x=0.15)
