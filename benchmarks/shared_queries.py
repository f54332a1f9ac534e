"""Many aggregate queries over one stream, in process: what 1 to 100 cost, compared with one.

All count, add up and average by the same keys; ranges, slides and filters differ.  "10 filters" has
ten windows with ten filters each, "own filters" a filter of its own for every query.  Where queries
run "apart", they share the reading of the stream, and fold its tuples each for itself.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree, measured
from benchmarks.result import Bar, Result, Row
from penstock.io.sinks.sink import Collected
from penstock.local.run import LocalRun
from penstock.model.clock import SystemClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Outlet

LIMIT = 10.0  # times one query, for 100
MINUTE = 60
HOURS = 2
KEYS = 50
RANGES = (5, 10, 15, 20, 30)  # minutes
SLIDES = (5, 15)
WINDOWS = [(w, s) for w, s in product(RANGES, SLIDES) if s <= w] + [(45, 5), (60, 15)]


def stream(count: int) -> pa.Table:
    random = np.random.default_rng(7)
    ticks = np.sort(random.integers(0, HOURS * 60 * MINUTE, count))
    late = random.integers(0, 20, count)  # seconds of disorder
    return pa.table(
        {
            "k": random.integers(0, KEYS, count),
            "kind": random.integers(0, 100, count),
            "x": random.integers(0, 1000, count),
            "t": ticks - late,
        }
    )


def text(number: int, own: bool) -> str:
    span, slide = WINDOWS[number % 10]
    kind = number if own else number // 10
    window = f"RANGE {span * MINUTE}, SLIDE {slide * MINUTE}, WA t"
    where = f"kind >= {kind}" if kind % 2 else f"kind <> {kind}"
    calls = "count(*) AS n, sum(x) AS total, avg(x) AS mean"
    return f"SELECT k, {calls} [{window}] FROM s WHERE {where} GROUP BY k"


def run(quick: bool = False) -> Result:
    table = stream(5_000 if quick else 2_000_000)
    sizes = (1, 4) if quick else (1, 3, 10, 30, 100)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for name, own in (("10 filters", False), ("own filters", True)):
        for count in sizes:
            queries = bound(table, count, own)
            work = {
                "shared": partial(answers, queries, shared=True),
                "apart": partial(answers, queries, shared=False),
            }
            times, found = measured(work, 1 if quick or count > 10 else 2)
            agreed |= {f"{name}, {count}: {who}": n for who, n in agree(found).items()}
            rows.append({"queries": count, "filters": name, **times})
    for row in rows:
        one = next(r for r in rows if r["queries"] == 1 and r["filters"] == row["filters"])
        row["times one"], row["apart, times one"] = (
            row["shared"] / one["shared"],
            row["apart"] / one["apart"],
        )
    most = {row["filters"]: row["times one"] for row in rows if row["queries"] == sizes[-1]}
    bars = [Bar(f"{sizes[-1]} queries, {name}", LIMIT, most[name]) for name in most]
    title = "Aggregate queries over one stream"
    return Result("shared_queries", title, rows, agreed, bars, partial(plot, rows))


def bound(table: pa.Table, count: int, own: bool) -> list[QueryPlan]:
    db = ps.connect("local")
    db.stream("s", table, progress=ps.progress("t", delay=20))
    found = [db.sql(text(number, own)) for number in range(count)]
    return [query.plan for query in found if isinstance(query, ps.Query)]


def answers(queries: list[QueryPlan], shared: bool) -> pa.Table:
    """The rows of all queries, with the number of each."""
    sinks = [Collected() for _ in queries]
    plans = [physical_plan(query, Settings()) for query in queries]
    outlets = [Outlet(query, sink) for query, sink in zip(queries, sinks, strict=True)]
    run = LocalRun(plans, outlets, SystemClock()) if shared else LocalRun([], [], SystemClock())
    for plan, outlet in zip(plans, outlets, strict=True) if not shared else ():
        run.graph.add(plan, outlet)
    for scan in run.scans:
        for chunk in scan.chunks():
            run.feed(scan, chunk)
        run.end(scan)
    tables = [sink.table for sink in sinks]
    return pa.concat_tables(
        table.append_column("query", pa.array([number] * table.num_rows, pa.int64()))
        for number, table in enumerate(tables)
    )


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Aggregate queries over one stream") as (axis,):
        for place, name in enumerate(("10 filters", "own filters")):
            own = [row for row in rows if row["filters"] == name]
            counts = [row["queries"] for row in own]
            shared, apart = ([row[each] for row in own] for each in ("shared", "apart"))
            axis.plot(counts, shared, color=f"C{place}", marker="o", label=f"{name}, shared")
            axis.plot(counts, apart, f"C{place}--", marker="s", label=f"{name}, apart")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("queries")
        axis.set_ylabel("seconds")
        axis.legend()
