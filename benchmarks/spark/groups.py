"""1,000 and 100,000 groups, and a query for minima and maxima, which cannot be subtracted."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.result import Result, Row
from benchmarks.spark.comparing import bar_plot, row
from benchmarks.spark.contest import QUICK, contest
from benchmarks.workloads import KEYS, Workload, events

CUTS = 2
EXTREMES = "min(len) AS low, max(len) AS high"


def run(quick: bool = False) -> Result:
    count = QUICK if quick else 200_000
    window = (6, 1) if quick else (60, 10)
    table = events(count)
    contests = {
        "1,000 groups": (table, Workload("", *window)),
        "100,000 groups": (spread(table, 100_000), Workload("", *window)),
        "min and max": (table, Workload("", *window, EXTREMES)),
    }
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for what, (given, workload) in contests.items():
        found = contest(workload, given, CUTS, rounds=1)
        rows.append(row(what, count, found))
        agreed |= {f"{what}: {name}": size for name, size in found.agreed.items()}
    title = f"{count:,} events in {CUTS} micro-batches, RANGE {window[0]} s, SLIDE {window[1]} s"
    plot = partial(bar_plot, "Many groups; minima and maxima", rows)
    return Result("spark_groups", title, rows, agreed, plot=plot)


def spread(table: pa.Table, groups: int) -> pa.Table:
    """The same events with keys that are split further by their lengths and times."""
    factor = groups // KEYS
    beside = pc.add(table.column("len"), table.column("ts").cast(pa.int64())).to_numpy() % factor
    keys = table.column("k").to_numpy() * factor + beside
    return table.set_column(0, "k", pa.array(keys))
