"""What a micro-batch of 1,000 rows costs, and starting a query, beside the cheapest native ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result, Row
from benchmarks.spark.contest import (
    PENSTOCK,
    SPARK,
    Outcome,
    closed,
    files,
    native_frame,
    penstock_frame,
    source,
)
from benchmarks.spark.contest import run as run_query
from benchmarks.workloads import Workload, events

ROWS = 1_000
CHEAPEST = "Spark, count per key"
WINDOW = Workload("tumbling", 1, 1)


def run(quick: bool = False) -> Result:
    cuts, rounds = (3, 1) if quick else (15, 2)
    table = apart(events(ROWS * cuts))
    with files(table, cuts) as folder:
        makes = {
            PENSTOCK: (lambda: penstock_frame(WINDOW, folder), "append"),
            SPARK: (lambda: native_frame(WINDOW, folder), "append"),
            CHEAPEST: (lambda: source(folder).groupBy("k").count(), "update"),
        }
        kept = {name: run_query(makes[name][0], keep_rows=True).rows for name in (PENSTOCK, SPARK)}
        agreed = agree(closed({name: rows for name, rows in kept.items() if rows is not None}))
        runs: dict[str, list[Outcome]] = {name: [] for name in makes}
        for _ in range(rounds):
            for name, (make, mode) in makes.items():
                runs[name].append(run_query(make, mode))
    batch = {name: min(median(each.batches[1:]) for each in made) for name, made in runs.items()}
    # what the first micro-batch takes longer than others belongs to starting
    start = {
        name: min(each.until_first - median(each.batches[1:]) for each in made)
        for name, made in runs.items()
    }
    rows: list[Row] = [
        {"query": name, "ms per micro-batch": batch[name] * 1e3, "s to start": start[name]}
        for name in makes
    ]
    more = (batch[PENSTOCK] - batch[CHEAPEST]) * 1e3
    later = start[PENSTOCK] - min(start[SPARK], start[CHEAPEST])
    bars = [
        Bar("a micro-batch of 1,000 rows, more than the cheapest native one", 250, more, "ms"),
        Bar("starting a query, more than a native one", 2, later, "s"),
    ]
    title = f"micro-batches of {ROWS:,} rows: the median of {cuts - 1}, best of {rounds} runs"
    return Result("small_batches", title, rows, agreed, bars, partial(plot, rows))


def apart(table: pa.Table) -> pa.Table:
    """The events of a micro-batch five seconds after those of the one before: windows close."""
    stamps = table.column("ts").cast(pa.int64()).to_numpy()
    later = stamps + np.arange(len(stamps)) // ROWS * 5_000_000
    return table.set_column(2, "ts", pa.array(later).cast(table.schema.field("ts").type))


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "A micro-batch of 1,000 rows", width=8) as (axis,):
        names = [row["query"] for row in rows]
        bars = axis.barh(names, [row["ms per micro-batch"] for row in rows])
        axis.bar_label(bars, fmt="%.0f", padding=3)
        axis.invert_yaxis()
        axis.set(xlabel="milliseconds")
        axis.margins(x=0.15)
