"""Workloads A and B: events per second, beside systems that have the whole input at once.

Polars and DuckDB compute the same answer offline on one thread, which is the floor.  bytewax works
event by event in Python, so it gets a part of the events and is compared by the event.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks import bytewax_peer, plotting
from benchmarks.measuring import agree, measured
from benchmarks.offline import DuckDB, Polars
from benchmarks.result import Bar, Result, Row, shown
from benchmarks.workloads import A, B, Workload, cut, events
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import SystemClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.query import QueryPlan

LARGE, SMALL = "Penstock, 64 Ki rows", "Penstock, 1 Ki rows"
BATCHES = {LARGE: 1 << 16, SMALL: 1 << 10}
LIMITS = {"A": 2.5, "B": 3.0}  # times Polars


def run(quick: bool = False) -> Result:
    count, part, rounds = (4_000, 100, 1) if quick else (1_000_000, 5_000, 5)
    table, some = events(count), events(part)
    polars, duckdb = Polars(table), DuckDB(table)
    rows: list[Row] = []
    bars: list[Bar] = []
    agreed: dict[str, int] = {}
    for workload in (A, B):
        letter = workload.name[0]
        queries = {name: workload.query(cut(table, size)) for name, size in BATCHES.items()}
        contenders = {
            Polars.name: partial(polars.answer, workload),
            DuckDB.name: partial(duckdb.answer, workload),
            **{name: partial(answered, query) for name, query in queries.items()},
        }
        times, found = measured(contenders, rounds)
        found = {name: numbered(table, workload) for name, table in found.items()}
        agreed |= {f"{letter}: {name}": size for name, size in agree(found).items()}
        each = {name: seconds / count for name, seconds in times.items()}
        if bytewax_peer.AVAILABLE:
            flow = bytewax_peer.folding(some, workload)
            times, found = measured({"bytewax": flow}, 1)
            peers = {"Polars": Polars(some).answer(workload), "bytewax": found["bytewax"]}
            numbers = {name: numbered(table, workload) for name, table in peers.items()}
            agreed |= {f"{letter}: bytewax": agree(numbers)["bytewax"]}
            each["bytewax"] = times["bytewax"] / part
        floor = each[Polars.name]
        for name, seconds in each.items():
            rows.append(
                {
                    "workload": letter,
                    "system": name,
                    "ns per event": seconds * 1e9,
                    "million events/s": 1e-6 / seconds,
                    "times Polars": seconds / floor,
                }
            )
        ratio = each[LARGE] / floor
        bars.append(Bar(f"{letter} in batches of 64 Ki, against Polars", LIMITS[letter], ratio))
        if workload is A:
            bars.append(Bar("A in batches of 1 Ki, against 64 Ki", 3, each[SMALL] / each[LARGE]))
    title = f"{count:,} events, one thread, best of {rounds} rounds"
    return Result("throughput", title, rows, agreed, bars, partial(plot, rows))


def answered(query: QueryPlan) -> pa.Table:
    return answer(physical_plan(query, Settings()), SystemClock()).table


def numbered(found: pa.Table, workload: Workload) -> pa.Table:
    """An answer with the numbers of the windows instead of their ends."""
    if "w" not in found.column_names:
        ends = found.column("window_end").cast(pa.int64()).to_numpy()
        found = found.append_column("w", pa.array(ends // (workload.slide * 1_000_000) - 1))
    return found.select(["w", "k", "n", "bytes"]).cast(
        pa.schema([(name, pa.int64()) for name in ("w", "k", "n", "bytes")])
    )


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Count and sum per key, 1,000 keys, one thread", panels=2) as axes:
        for axis, workload in zip(axes, (A, B), strict=True):
            chosen = [row for row in rows if row["workload"] == workload.name[0]]
            names = [row["system"] for row in chosen]
            times = [row["ns per event"] for row in chosen]
            colours = ["C0" if name.startswith("Penstock") else "0.6" for name in names]
            bars = axis.barh(names, times, color=colours)
            axis.bar_label(bars, [f"{shown(row['times Polars'])}×" for row in chosen], padding=3)
            axis.invert_yaxis()
            axis.set(
                title=workload.name,
                xscale="log",
                xlabel="processor time per event (ns), and times Polars",
            )
            axis.margins(x=0.3)
