"""Figure 6-10 of the thesis: execution time against SLIDE, max over the last 4,000 rows.

A tuple is in RANGE / SLIDE windows.  WID folds it into each of them and buffering looks at it again
for each, so both pay for small slides; panes are shared, so Paned-WID pays for its results only.
Rows are numbered in a column, so that all four algorithms for windows over values can be used.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import plotting
from benchmarks.driving import ALGORITHMS, aggregation, answer, ingested
from benchmarks.measuring import agree, best_times, measured
from benchmarks.result import Result, Row

RANGE = 4_000  # rows
SLIDES = (1, 4, 10, 40, 100, 400, 1_000, 4_000)
SCHEMA = pa.schema([("v", pa.int64()), ("t", pa.int64())])


def run(quick: bool = False) -> Result:
    count, range_, slides = (100, 40, (5, 40)) if quick else (6_000, RANGE, SLIDES)
    batches = stream(count, 1 << 10)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for slide in slides:
        sql = f"SELECT max(v) AS top [RANGE {range_}, SLIDE {slide}, WA t] FROM s"
        node = aggregation(sql, batches, SCHEMA)
        items = list(ingested(node))
        contenders = {name: partial(answer, node, make, items) for name, make in ALGORITHMS.items()}
        times, found = measured(contenders, 1)
        agreed |= {f"SLIDE {slide}: {name}": size for name, size in agree(found).items()}
        times |= best_times({"scan": lambda node=node: list(ingested(node))}, 1)
        rows.append({"SLIDE (rows)": slide} | {f"{name} ms": times[name] * 1000 for name in times})
    title = f"Figure 6-10: max over the last {range_:,} of {count:,} rows"
    return Result("figure_6_10", title, rows, agreed, plot=partial(plot, rows))


def stream(count: int, cut: int) -> list[pa.RecordBatch]:
    generator = np.random.default_rng(1)
    whole = pa.RecordBatch.from_arrays(
        [pa.array(generator.integers(0, 1_000_000, count)), pa.array(np.arange(count))],
        schema=SCHEMA,
    )
    return [whole.slice(begin, cut) for begin in range(0, count, cut)]


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Execution time against SLIDE (thesis, figure 6-10)") as (axis,):
        slides = [row["SLIDE (rows)"] for row in rows]
        for name in ALGORITHMS:
            times = [row[f"{name} ms"] for row in rows]
            style = {"color": plotting.COLOURS[name], "marker": plotting.MARKERS[name]}
            axis.plot(slides, times, label=name, **style)
        scan = [row["scan ms"] for row in rows]
        axis.plot(slides, scan, label="scan only", color=plotting.COLOURS["scan"], linestyle="--")
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="SLIDE (rows); RANGE is 4,000 rows",
            ylabel="processor time (ms)",
        )
        axis.legend()
