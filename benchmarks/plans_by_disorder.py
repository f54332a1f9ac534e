"""One query whose best plan differs between an ordered and a disordered stream.

Tuples of an ordered batch fall into few panes, so panes are cheap; those of a disordered one fall
into hundreds, and it is cheaper to keep tuples until their windows close.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.measuring import agree, measured
from benchmarks.plotting import figure
from benchmarks.result import Bar, Result
from penstock.plan.algorithms import Algorithm
from penstock.plan.nodes.aggregation import WindowAggregate

ALGORITHMS = (Algorithm.PANED, Algorithm.WID, Algorithm.BUFFERING, Algorithm.TWO_LEVEL)
DELAYS = (0.0, 0.25, 1.0, 4.0)  # seconds
RATE, BATCH, GROUPS = 5_000, 500, 5
WINDOW = "RANGE 2 SECONDS, SLIDE 20 MILLISECONDS"


def batches(delay: float, seconds: int) -> list[pa.RecordBatch]:
    """Every tuple is late by anything up to the delay."""
    generator = np.random.default_rng(1)
    rows = RATE * seconds
    due = np.sort(generator.integers(0, seconds * 1_000_000, rows))
    order = np.argsort(due + generator.integers(0, int(delay * 1e6) + 1, rows), kind="stable")
    columns = {
        "k": pa.array(generator.integers(0, GROUPS, rows)),
        "v": pa.array(generator.integers(0, 1_000, rows)),
        "ts": pa.array(due).cast(pa.timestamp("us", "UTC")),
    }
    return pa.table(columns).take(pa.array(order)).combine_chunks().to_batches(BATCH)


def query(given: list[pa.RecordBatch], delay: float, hint: str = "") -> ps.Query:
    db = ps.connect("local", adapt=False)
    db.stream("s", given, progress=ps.progress("ts", delay=f"{delay} seconds"))
    found = db.sql(
        f"SELECT {hint} k, count(*) AS n, sum(v) AS s [{WINDOW}, WA ts] FROM s GROUP BY k"
    )
    assert isinstance(found, ps.Query)
    return found


def chosen(asked: ps.Query) -> Algorithm:
    (node,) = (each for each in asked.plan.walk() if isinstance(each, WindowAggregate))
    return node.algorithm


def run(quick: bool) -> Result:
    seconds, rows, agreed, found = 2 if quick else 20, [], {}, {}
    for delay in (DELAYS[0], DELAYS[-1]) if quick else DELAYS:
        given = batches(delay, seconds)
        times, answers = measured(
            {
                each.name: lambda each=each, given=given, delay=delay: query(
                    given, delay, f"/*+ {each.name} */"
                ).collect()
                for each in ALGORITHMS
            },
            rounds=1 if quick else 3,
        )
        agreed |= {f"{delay}: {name}": n for name, n in agree(answers).items()}
        best = chosen(query(given, delay))
        found[delay] = best.name, times
        rows.append({"delay, s": delay, "chosen": best.name, **times})
    (ordered, in_order), (disordered, out_of_order) = found[DELAYS[0]], found[DELAYS[-1]]
    bars = [
        Bar("ordered: chosen / best", 1.2, in_order[ordered] / min(in_order.values())),
        Bar(
            "disordered: chosen / best", 1.2, out_of_order[disordered] / min(out_of_order.values())
        ),
        Bar(
            "disordered: chosen / best of the ordered",
            0.8,
            out_of_order[disordered] / out_of_order[ordered],
        ),
    ]

    def plot(path: Path) -> None:
        with figure(path, "One query, by disorder") as (axis,):
            for each in ALGORITHMS:
                line = [times[each.name] for _, times in found.values()]
                axis.plot(list(found), line, marker="o", label=each.name)
            for delay, (name, times) in found.items():
                axis.plot(
                    [delay], [times[name]], "o", markersize=13, fillstyle="none", color="black"
                )
            axis.set(xlabel="delay, s (a circle: chosen)", ylabel="seconds", ylim=(0, None))
            axis.legend()

    title = "The best plan for ordered and for disordered streams"
    return Result("plans_by_disorder", title, rows, agreed, bars, plot)
