"""A join of three streams with CONSISTENCY SERIAL, LEVEL and WEAK, on one processor and on all, and
without the clause.  Times are those of the wall, because several processors are at work: they want
a quiet machine.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result, Row
from penstock.engine.local import answer
from penstock.model.clock import SystemClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.settings import Settings
from penstock.plan.query import QueryPlan

CLAUSES = ("", "CONSISTENCY SERIAL", "CONSISTENCY LEVEL 100000", "CONSISTENCY WEAK")
TEXT = (
    "SELECT a.x, b.x AS y, c.x AS z FROM a [RANGE 600], b [RANGE 600], c [RANGE 600]"
    " WHERE a.k = b.k AND b.k = c.k"
)
KEYS = 20_000


def run(quick: bool = False) -> Result:
    rows = 2_000 if quick else 400_000
    plans = {clause: bound(rows, clause) for clause in CLAUSES}
    times: dict[tuple[str, str], float] = {}
    found: dict[str, pa.Table] = {}
    for _ in range(1 if quick else 4):
        for clause, plan in plans.items():
            for processors, limited in (("one", True), ("all", False)):
                took, table = _timed(partial(_answer, plan), limited)
                key = clause or "not said", processors
                times[key] = min(times.get(key, took), took)
                found[f"{clause or 'not said'}, {processors}"] = table
    agreed = agree(found)
    made: list[Row] = [
        {"clause": clause, "processors": processors, "seconds": took}
        for (clause, processors), took in times.items()
    ]
    serial, weak = (times[f"CONSISTENCY {each}", "all"] for each in ("SERIAL", "WEAK"))
    alone = times["CONSISTENCY SERIAL", "one"]
    bars = [
        Bar("WEAK against SERIAL, on all processors", 1.0, weak / serial),
        Bar("WEAK on all processors against SERIAL on one", 0.8, weak / alone),
    ]
    return Result("consistency", "A join of three streams, and how rows follow", made, agreed, bars)


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


def _answer(plan: QueryPlan) -> pa.Table:
    return answer(physical_plan(plan, Settings()), SystemClock()).table


def _timed(work: Callable[[], pa.Table], limited: bool) -> tuple[float, pa.Table]:
    """On one processor, if it is limited."""
    every = os.sched_getaffinity(0)
    if limited:
        os.sched_setaffinity(0, {min(every)})
    try:
        gc.collect()
        begin = perf_counter()
        found = work()
        return perf_counter() - begin, found
    finally:
        os.sched_setaffinity(0, every)
