"""Figure 14 of *A Flexible Query Graph Based Model*: depth-first against breadth-first.

Two streams, 1,000 and 0.5 tuples a second, through filters into a union.  The fast one comes in
bursts.  If filter and union take c for a tuple, the average latency is (n + 1) c depth-first and
(1.5 n + 0.5) c breadth-first, where n is the size of the bursts: a tuple that went ahead waits
until all others of its burst have caught up.
"""

from __future__ import annotations

from typing import Any

from penstock.experiments.experiment_clock import Conduct
from penstock.experiments.figure import Expectation, Figure
from penstock.experiments.idle_waiting import IN_ORDER, STREAMS, WITHOUT_STAMPS
from penstock.experiments.trial import Costs, Trial, poisson

RATES = (1000.0, 0.5)
COST = 20  # c, in microseconds: the engine is idle for most of the time
COSTS = Costs(entry=0, tuple=COST, progress=0, free=frozenset({"Project"}))
STRATEGIES = {"DFS": "dfs 1", "BFS": "bfs 1"}
SIZES = (1, 10, 50, 100)
SLOWLY = 100  # times as slow in real time, which makes c 2 ms
SLOW_RATES = (1000.0, 50.0)  # before that: nobody waits for minutes


def formula(strategy: str, size: int, cost: int = COST) -> float:
    """Average latency by the paper's formula, in milliseconds.

    >>> formula("DFS", 100), formula("BFS", 100)
    (2.02, 3.01)
    """
    times = size + 1 if strategy == "DFS" else 1.5 * size + 0.5
    return times * cost / 1000


def burst_sizes(conduct: Conduct) -> Figure:
    sizes = (10, 30) if conduct.real_time else (1, 10, 50) if conduct.quick else SIZES
    rows = [row for size in sizes for row in _rows(conduct, size)]
    off = max(abs(row["latent"] / row["formula"] - 1) for row in rows)
    expected = [Expectation("latencies follow the formulas within 20 %", f"{off:.1%}", off <= 0.2)]
    for kind in ("latent", "on demand"):
        last = {row["strategy"]: row[kind] for row in rows[-2:]}
        found = last["BFS"] / last["DFS"]
        expected.append(
            Expectation(f"BFS slower than DFS in large bursts, {kind}", f"{found:.2f} ×", found > 1)
        )
    least = min(row["none"] / row["on demand"] for row in rows)
    far = 5 if conduct.real_time else 10  # there, the slow stream comes more often
    expected.append(
        Expectation("on demand far better than none with both", f"{least:,.0f} ×", least > far)
    )
    return Figure(
        "figure-14",
        "Figure 14: depth-first against breadth-first, average latency in ms",
        "both are alike without enabling timestamps and orders of magnitude better with them;"
        " with bursts, BFS rises more steeply: (1.5 n + 0.5) c against (n + 1) c",
        rows,
        expected,
        [lambda axis: _draw(axis, rows)],
    )


def _rows(conduct: Conduct, size: int) -> list[dict[str, Any]]:
    slowly = SLOWLY if conduct.real_time else 1
    rates = SLOW_RATES if conduct.real_time else RATES
    arrivals = poisson(rates, conduct.seconds(4, 4, 12 / SLOWLY), (size, 1))
    rows = []
    for name, strategy in STRATEGIES.items():
        trials = {
            "latent": Trial(WITHOUT_STAMPS, STREAMS, strategy=strategy, stamps=None),
            "on demand": Trial(IN_ORDER, STREAMS, strategy=strategy),
            "none": Trial(IN_ORDER, STREAMS, "none", strategy=strategy),
        }
        means = {
            kind: conduct.run_slowly(each, arrivals, slowly, COSTS).mean
            for kind, each in trials.items()
        }
        told = formula(name, size, COST * slowly)
        rows.append({"burst": size, "strategy": name, "formula": told, **means})
    return rows


def _draw(axis: Any, rows: list[dict[str, Any]]) -> None:
    for name, colour in (("DFS", "C0"), ("BFS", "C3")):
        own = [row for row in rows if row["strategy"] == name]
        sizes = [row["burst"] for row in own]
        for kind, style in (("latent", "o"), ("on demand", "x-")):
            values = [row[kind] for row in own]
            axis.plot(sizes, values, style, color=colour, label=f"{name}, {kind}")
        if isinstance(own[0]["formula"], float):
            values = [row["formula"] for row in own]
            axis.plot(sizes, values, ":", color=colour, label=f"{name}, formula")
    axis.set(xlabel="tuples in a burst", ylabel="average latency (ms)")
