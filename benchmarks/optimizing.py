"""How long the optimizer takes, by the number of nodes of a plan: from what is bound to what runs.
Plans are unions of joins of two streams, or one join of several, whose orders are all looked at.

In processor time, the least of some rounds: it is done once for a query, before the first tuple.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product
from pathlib import Path

import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.measuring import agree, best_times
from benchmarks.result import Bar, Result, Row
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.optimizer.optimize import RULES, optimize, physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Host

LIMIT = 50.0  # ms
NODES = 20
COUNTS = "SELECT k, window_end AS e, count(*) AS n [RANGE 6, SLIDE 2, WA t] FROM {} GROUP BY k"
PAIRS = """(SELECT k, e, max(n) AS top FROM (
    SELECT x.k AS k, x.e AS e, x.n + y.n AS n
    FROM ({0}) x [RANGE 20], ({1}) y [RANGE 20]
    WHERE x.k = y.k AND x.n > 2 * 1
  ) p WHERE n > 3 GROUP BY k, e)"""
ROWS = "(SELECT k, e, n AS top FROM (SELECT DISTINCT k, e, n FROM ({0}) w) v WHERE 1 < 2)"


def run(quick: bool = False) -> Result:
    rounds = 1 if quick else 20
    rows: list[Row] = []
    plans = {f"{2 * n} of two": bound(n) for n in ((1, 2) if quick else (1, 2, 3, 5))}
    plans |= {f"one of {n}": of_several(n) for n in ((4,) if quick else (3, 4, 5, 6))}
    for (joins, query), host in product(plans.items(), Host):
        work = partial(optimize, query, Settings(host=host))
        rows.append(
            {
                "joins": joins,
                "host": host.value,
                "nodes": len(list(query.walk())),
                "rules": len(RULES[host]),
                "ms": best_times({"optimize": work}, rounds)["optimize"] * 1e3,
            }
        )
    bars = []
    for kind in ("of two", "one of"):
        some = [row for row in rows if kind in row["joins"]]
        slowest = [row["ms"] for row in some if NODES <= row["nodes"] < 1.25 * NODES]
        if slowest:
            bars.append(
                Bar(f"plans of {NODES} nodes and a few, joins {kind}", LIMIT, max(slowest), "ms")
            )
    agreed = agree({"by all rules": found(None), "by those that it needs": found(())})
    return Result("optimizing", "Optimizing a plan", rows, agreed, bars, partial(plot, rows))


def bound(united: int) -> QueryPlan:
    db = ps.connect("local")
    for name in "ab":
        rows = [(number % 5, number // 7) for number in range(300)]
        db.stream(name, rows, schema="k INT, t INT", progress=ps.progress("t", delay=5))
    counts = [COUNTS.format(name) for name in "ab"]
    parts = [text.format(*counts) for _ in range(united) for text in (PAIRS, ROWS)]
    query = db.sql(f"SELECT k, e, top FROM ({' UNION '.join(parts)}) q WHERE k > 2 AND top < 100")
    assert isinstance(query, ps.Query)
    return query.plan


def of_several(streams: int) -> QueryPlan:
    """Joined by one key, so that any of them may come first, and counted; of each stream some
    tuples."""
    db, names = ps.connect("local"), "abcdef"[:streams]
    for seed, name in enumerate(names):
        rows = [(n * 7 % (11 + seed), n % 5, n // (1 + seed)) for n in range(300)]
        db.stream(name, rows, schema="k INT, v INT, t INT", progress=ps.progress("t", delay=5))
    some = [f"(SELECT k, t, v + 1 AS v FROM {name} WHERE v > 1) {name} [RANGE 9]" for name in names]
    where = " AND ".join(f"{one}.k = {other}.k" for one, other in pairwise(names))
    window = "[RANGE 20, SLIDE 10, WA a.t]"
    text = f"SELECT a.k, count(*) AS n {window} FROM {', '.join(some)} WHERE {where} GROUP BY a.k"
    query = db.sql(f"{text} HAVING n > 2")
    assert isinstance(query, ps.Query)
    return query.plan


def found(rules: tuple[str, ...] | None) -> pa.Table:
    plan = physical_plan(bound(1), Settings(), rules)
    return answer(plan, ManualClock()).table


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "Optimizing a plan") as (axis,):
        for host, (kind, marker) in product(Host, (("of two", "o"), ("one of", "s"))):
            own = [row for row in rows if row["host"] == host.value and kind in row["joins"]]
            nodes, times = [row["nodes"] for row in own], [row["ms"] for row in own]
            axis.plot(nodes, times, marker=marker, label=f"{host.value}, {kind} …")
        axis.axhline(LIMIT, color="0.5", linestyle="--")
        axis.set_xlabel("nodes of the plan")
        axis.set_ylabel("milliseconds")
        axis.legend()
