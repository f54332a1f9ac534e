"""What the query graph costs: workloads A, B and C through it, against a driver that hands what an
operator gives straight to the next one.  Batches of 64 Ki rows have a bar.  What the scheduler
takes for a batch is the same for smaller ones, so it is shown for 1 Ki rows as well.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks import plotting
from benchmarks.joining import C, fed_alternately, stream
from benchmarks.measuring import Work, agree, measured
from benchmarks.result import Bar, Result, Row
from benchmarks.straight import Straight, straight_alternately
from benchmarks.throughput import answered
from benchmarks.workloads import A, B, Workload, cut, events
from penstock.model.clock import SystemClock
from penstock.plan.nodes.query import QueryPlan

GRAPH, STRAIGHT = "graph", "straight"
LARGE = "64 Ki"
BATCHES = {LARGE: 1 << 16, "1 Ki": 1 << 10}
LIMIT = 1.15  # times the straight driver


def run(quick: bool = False) -> Result:
    count, pairs, rounds = (4_000, 2_000, 1) if quick else (1_000_000, 200_000, 5)
    table, streams = events(count), (stream(pairs, 1), stream(pairs, 2))
    rows: list[Row] = []
    bars: list[Bar] = []
    agreed: dict[str, int] = {}
    for size, at_once in BATCHES.items():
        cases: dict[str, tuple[int, dict[str, Work]]] = {
            workload.name[0]: (count, _of_one(workload, table, at_once)) for workload in (A, B)
        }
        cases["C"] = 2 * pairs, _of_two(C.query(), streams, at_once)
        for letter, (tuples, contenders) in cases.items():
            times, answers = measured(contenders, rounds)
            name = f"{letter}, {size} rows"
            agreed |= {f"{name}: {who}": found for who, found in agree(answers).items()}
            ratio = times[GRAPH] / times[STRAIGHT]
            each_batch = (times[GRAPH] - times[STRAIGHT]) / tuples * at_once
            rows.append(
                {
                    "workload": name,
                    **{f"{who}, ns a tuple": each / tuples * 1e9 for who, each in times.items()},
                    "more for a batch, µs": each_batch * 1e6,
                    "times straight": ratio,
                }
            )
            if size == LARGE:
                bars.append(Bar(f"{name}: the graph, against straight calls", LIMIT, ratio))
    title = f"The graph against straight calls, one thread, best of {rounds} rounds"
    return Result("graph_costs", title, rows, agreed, bars, partial(plot, rows))


def _of_one(workload: Workload, table: pa.Table, rows: int) -> dict[str, Work]:
    query = workload.query(cut(table, rows))
    return {
        STRAIGHT: lambda: Straight(query, SystemClock()).read(),
        GRAPH: partial(answered, query),
    }


def _of_two(
    query: QueryPlan, streams: tuple[pa.RecordBatch, pa.RecordBatch], rows: int
) -> dict[str, Work]:
    return {
        STRAIGHT: lambda: straight_alternately(query, streams, rows, SystemClock()),
        GRAPH: partial(fed_alternately, query, streams, rows),
    }


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "What the graph costs") as (axis,):
        axis.barh([row["workload"] for row in rows], [row["times straight"] for row in rows])
        axis.axvline(LIMIT, color="0.5", linestyle="--")
        axis.invert_yaxis()
        axis.set(xlabel="processor time, times that of straight calls")
