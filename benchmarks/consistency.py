"""A join of three streams with CONSISTENCY SERIAL, LEVEL and WEAK, on one processor and on all, and
without the clause.  Times are those of the wall, because several processors are at work: they want
a quiet machine.  Either number of processors has a process of its own, because threads keep to
those that were allowed when they began.
"""

from __future__ import annotations

import gc
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result, Row
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import SystemClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.query import QueryPlan

CLAUSES = {
    "not said": "",
    "SERIAL": "CONSISTENCY SERIAL",
    "LEVEL": "CONSISTENCY LEVEL 100000",
    "WEAK": "CONSISTENCY WEAK",
}
TEXT = (
    "SELECT a.x, b.x AS y, c.x AS z FROM a [RANGE 600], b [RANGE 600], c [RANGE 600]"
    " WHERE a.k = b.k AND b.k = c.k"
)
KEYS = 20_000
ONE, ALL = "one", "all"


def run(quick: bool = False) -> Result:
    count, rounds = (2_000, 1) if quick else (400_000, 4)
    rows: list[Row] = []
    agreed: dict[str, int] = {}
    for processors in (ONE, ALL):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            times, found = pool.submit(measured_on, processors, count, rounds).result()
        agreed |= {f"{clause}, {processors}": size for clause, size in found.items()}
        rows += [
            {"clause": clause, "processors": processors, "seconds": took}
            for clause, took in times.items()
        ]
    took = {(row["clause"], row["processors"]): row["seconds"] for row in rows}
    bars = [
        Bar("WEAK against SERIAL, on all processors", 1.0, took["WEAK", ALL] / took["SERIAL", ALL]),
        Bar("WEAK on all processors against one", 0.9, took["WEAK", ALL] / took["WEAK", ONE]),
    ]
    title = "A join of three streams, and how rows follow"
    return Result("consistency", title, rows, agreed, bars, partial(plot, rows))


def measured_on(
    processors: str, count: int, rounds: int
) -> tuple[dict[str, float], dict[str, int]]:
    """The best time with every clause, in turns, and how many rows there are."""
    if processors == ONE:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    plans = {name: bound(count, clause) for name, clause in CLAUSES.items()}
    times: dict[str, float] = {}
    found: dict[str, pa.Table] = {}
    for _ in range(rounds):
        for name, plan in plans.items():
            gc.collect()
            begin = perf_counter()
            found[name] = answer(physical_plan(plan, Settings()), SystemClock()).table
            took = perf_counter() - begin
            times[name] = min(times.get(name, took), took)
    return times, agree(found)


def bound(rows: int, clause: str) -> QueryPlan:
    random = np.random.default_rng(5)
    db = ps.connect("local")
    for name in "abc":
        table = pa.table(
            {
                "k": random.integers(0, KEYS, rows),
                "x": np.arange(rows),
                "t": np.sort(random.integers(0, rows // 40, rows)),
            }
        )
        db.stream(name, table, progress=ps.progress("t", ordered=True))
    query = db.sql(f"{TEXT} {clause}")
    assert isinstance(query, ps.Query)
    return query.plan


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "CONSISTENCY: a join of three streams") as (axis,):
        for shift, processors in ((-0.2, ONE), (0.2, ALL)):
            own = [row["seconds"] for row in rows if row["processors"] == processors]
            places = [place + shift for place in range(len(own))]
            axis.bar(places, own, 0.4, label=f"{processors} processor{'s' * (processors == ALL)}")
        axis.set_xticks(range(len(CLAUSES)), list(CLAUSES))
        axis.set_ylabel("s")
        axis.legend()
