"""Figures 7 and 8 of *Optimizing Timestamp Management*: idle-waiting operators in a union.

Two streams, 50 and 0.05 tuples a second, each through a filter that 95 % pass, and their union in
order of time: without enabling timestamps (ETS), with periodic ones, with those on demand, and with
latent timestamps, which no union waits for."""

from __future__ import annotations

from functools import cache
from typing import Any

from penstock.experiments.experiment_clock import Conduct
from penstock.experiments.figure import Expectation, Figure
from penstock.experiments.trial import FILTER, Observed, Trial, poisson

RATES = (50.0, 0.05)  # tuples a second
FASTER = (50.0, 0.5)
PERIODIC = {"0.1": "10 seconds", "1": "1 second", "10": "100 ms", "100": "10 ms", "1000": "1 ms"}
UNION = f"SELECT v, ts FROM a WHERE {FILTER} UNION ALL SELECT v, ts FROM b WHERE {FILTER}"
IN_ORDER = f"{UNION} EMIT IN ORDER"
WITHOUT_STAMPS = f"SELECT v FROM a WHERE {FILTER} UNION ALL SELECT v FROM b WHERE {FILTER}"
STREAMS = ("a", "b")
A, C, D = "A: none", "C: on demand", "D: latent"
UNASKED = "D: latent, unasked"  # no operator wants to know the time
SHARES = {
    A: "99 %",
    "B: 100/s": "15 %",
    "B: 1000/s": "15 %",
    C: "< 0.1 %",
    D: "none",
    UNASKED: "none",
}
PEAKS = {A: "thousands", C: "less than a hundredth of A"}


@cache
def outcomes(conduct: Conduct) -> dict[str, Observed]:
    """Runs that both figures are made of."""
    rates = FASTER if conduct.real_time else RATES
    arrivals = poisson(rates, conduct.seconds(100, 60, 8))
    periodic = ("10", "100") if conduct.quick or conduct.real_time else tuple(PERIODIC)
    trials = {
        A: Trial(IN_ORDER, STREAMS, "none"),
        **{f"B: {rate}/s": Trial(IN_ORDER, STREAMS, PERIODIC[rate]) for rate in periodic},
        C: Trial(IN_ORDER, STREAMS),
        D: Trial(UNION, STREAMS, stamps="LATENT"),
        UNASKED: Trial(WITHOUT_STAMPS, STREAMS, stamps=None),
    }
    return {name: conduct.run(trial, arrivals) for name, trial in trials.items()}


def latency(conduct: Conduct) -> Figure:
    found = outcomes(conduct)
    rows = [
        {
            "enabling timestamps": name,
            "median latency ms": each.median,
            "mean latency ms": each.mean,
            "waiting idly": f"{each.idle_share:.2%}",
            "in the paper": SHARES.get(name, ""),
        }
        for name, each in found.items()
    ]
    none, on_demand = found[A], found[C]
    better = none.median / on_demand.median
    beside = on_demand.median / min(found[D].median, found[UNASKED].median)
    best = min(each.median for name, each in found.items() if name.startswith("B"))
    expected = [
        _at_least("on demand better than none, in the median", better, _limit(conduct, 1000)),
        Expectation(
            "on demand at most 1.3 × latent, the better one", f"{beside:.2f} ×", beside <= 1.3
        ),
        Expectation("no periodic rate beats it", f"{best:.3g} ms", best >= on_demand.median),
        Expectation(
            "on demand waits idly less than 1 %",
            f"{on_demand.idle_share:.3%}",
            on_demand.idle_share < 0.01,
        ),
    ]
    medians = {name: each.median for name, each in found.items()}
    return Figure(
        "figure-7",
        "Figure 7: latency of a union of two streams",
        "C is four orders of magnitude below A, about 0.1 ms above D, and below B at any rate",
        rows,
        expected,
        [lambda axis: _draw(axis, medians, "median latency (ms)")],
    )


def queues(conduct: Conduct) -> Figure:
    found = outcomes(conduct)
    rows: list[dict[str, Any]] = [
        {"enabling timestamps": name, "peak tuples": each.peak, "in the paper": PEAKS.get(name, "")}
        for name, each in found.items()
        if not name.startswith("D")
    ]
    peaks: dict[str, float] = {row["enabling timestamps"]: row["peak tuples"] for row in rows}
    smaller = found[A].peak / found[C].peak
    return Figure(
        "figure-8",
        "Figure 8: the most tuples in all queues together",
        "A: thousands; B falls with the rate, and rises again when timestamps come in crowds;"
        " C more than two orders of magnitude below A",
        rows,
        [_at_least("peak of on demand smaller than that of none", smaller, _limit(conduct, 100))],
        [lambda axis: _draw(axis, peaks, "tuples")],
    )


def _limit(conduct: Conduct, simulated: int) -> int:
    """Choose the number of tuples. In real time the slow stream is ten times as fast, which avoids
    a wait of 20 s."""
    return simulated // 10 if conduct.real_time else simulated


def _at_least(what: str, found: float, limit: float) -> Expectation:
    return Expectation(f"{what}: {limit:,} ×", f"{found:,.0f} ×", found >= limit)


def _draw(axis: Any, values: dict[str, float], label: str) -> None:
    periodic = {name: value for name, value in values.items() if name.startswith("B")}
    rates = [float(name[3:-2]) for name in periodic]
    axis.plot(rates, list(periodic.values()), "o-", color="C0", label="B: periodic")
    for name, colour in ((A, "C3"), (C, "C2"), (D, "0.3"), (UNASKED, "0.6")):
        if name in values:
            axis.axhline(values[name], color=colour, linestyle="--", label=name)
    axis.set(xscale="log", yscale="log", xlabel="periodic timestamps a second", ylabel=label)
