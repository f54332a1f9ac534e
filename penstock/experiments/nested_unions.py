"""Figures 15 and 16 of *A Flexible Query Graph Based Model*, on a graph like that of its figure 10.

Two streams meet in a union, with filters and projections before and behind it; a window aggregate
with a slide counts what comes out; a third stream meets the counts in a union in order of time.
The paper draws its graph, but does not write it down: this one has all that it speaks of.
"""

from __future__ import annotations

from typing import Any

from penstock.experiments.experiment_clock import Conduct
from penstock.experiments.figure import Expectation, Figure
from penstock.experiments.trial import FILTER, Observed, Trial, poisson

STREAMS = ("a", "b", "c")
RATES = (200.0, 5.0, 500.0)
SLOWLY = 40  # times as slow in real time: 1 ms for a tuple, 0.8 ms for progress
SLIDES = (10, 20, 50, 100, 200)  # milliseconds
CARRIAGES = {"arcs": "progress arcs", "punctuations": "punctuations"}


def query(slide: int) -> str:
    """Text of the query. Tuples of the third stream keep their numbers; counts are negative, to
    distinguish them."""
    pairs = (
        f"SELECT v, v * 2 AS w, ts FROM a WHERE {FILTER}"
        f" UNION ALL SELECT v, v + 1 AS w, ts FROM b WHERE {FILTER}"
    )
    return (
        "SELECT -count(*) AS v, window_end AS ts"
        f" [RANGE {slide} MILLISECONDS, SLIDE {slide} MILLISECONDS, WA ts]"
        f" FROM (SELECT v, w, ts FROM ({pairs}) AS p WHERE w >= 0) AS q"
        f" UNION ALL SELECT v, ts FROM c WHERE {FILTER} EMIT IN ORDER"
    )


def carriage(conduct: Conduct) -> Figure:
    slowly = SLOWLY if conduct.real_time else 1
    arrivals = poisson(RATES, conduct.seconds(6, 3, 30 / SLOWLY))
    rows: list[dict[str, Any]] = []
    for ets in ("none", "on demand"):
        for name, told in CARRIAGES.items():
            trial = Trial(query(20 * slowly), STREAMS, ets, carriage=name)
            observed = conduct.run_slowly(trial, arrivals, slowly)
            rows.append(
                {
                    "enabling timestamps": ets,
                    "carried by": told,
                    "median latency ms": observed.median,
                    "mean latency ms": observed.mean,
                }
            )
    none, _, arcs, punctuations = rows
    more = {
        kind: punctuations[f"{kind} latency ms"] / arcs[f"{kind} latency ms"] - 1
        for kind in ("median", "mean")
    }
    resolved = none["mean latency ms"] / punctuations["mean latency ms"]
    return Figure(
        "figure-15",
        "Figure 15: progress along arcs, and through all operators",
        "both resolve idle-waiting; without arcs the average latency is 14 % higher",
        rows,
        [
            Expectation(f"arcs beat punctuations, {kind}", f"punctuations {value:+.0%}", value > 0)
            for kind, value in more.items()
        ]
        + [Expectation("both resolve idle-waiting", f"{resolved:,.0f} × less", resolved > 10)],
        [lambda axis: _bars(axis, rows)],
    )


def burstiness(conduct: Conduct) -> Figure:
    slides = (20, 100) if conduct.quick or conduct.real_time else SLIDES
    arrivals = poisson(RATES, conduct.seconds(6, 3, 5))
    rows: list[dict[str, Any]] = []
    for slide in slides:
        found: dict[str, Observed] = {
            ets: conduct.run(Trial(query(slide), STREAMS, ets), arrivals)
            for ets in ("none", "on demand")
        }
        rows.append(
            {
                "slide ms": slide,
                "A: none": found["none"].burstiness,
                "B: on demand": found["on demand"].burstiness,
            }
        )
    least = min(row["A: none"] / row["B: on demand"] for row in rows)
    calm = [row["B: on demand"] for row in rows]
    return Figure(
        "figure-16",
        "Figure 16: burstiness of the output, (most − fewest) / average in 20 ms",
        "A rises with the slide; B is low and does not depend on it",
        rows,
        [
            Expectation("on demand is smoother at every slide", f"{least:.1f} ×", least > 1),
            Expectation(
                "on demand does not depend on the slide",
                f"{min(calm):.2f} to {max(calm):.2f}",
                max(calm) < 1.5 * min(calm),
            ),
        ],
        [lambda axis: _lines(axis, rows)],
    )


def _bars(axis: Any, rows: list[dict[str, Any]]) -> None:
    own = [row for row in rows if row["enabling timestamps"] == "on demand"]
    names = [row["carried by"] for row in own]
    for place, kind in ((-0.2, "median"), (0.2, "mean")):
        values = [row[f"{kind} latency ms"] for row in own]
        axis.bar([number + place for number in range(len(own))], values, 0.38, label=kind)
    axis.set_xticks(range(len(own)), names)
    axis.set(ylabel="latency (ms), on demand")


def _lines(axis: Any, rows: list[dict[str, Any]]) -> None:
    slides = [row["slide ms"] for row in rows]
    for name, colour in (("A: none", "C3"), ("B: on demand", "C2")):
        axis.plot(slides, [row[name] for row in rows], "o-", color=colour, label=name)
    axis.set(xlabel="slide (ms)", ylabel="burstiness", ylim=0)
