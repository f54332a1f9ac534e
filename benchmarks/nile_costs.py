"""Figures 5, 7 and 8 of the Nile paper: the response time of ordered window joins against the time
that joining takes.

λ1 is 1 tuple a second, λ2 10; the window is a minute.  Figure 5 has a window of a day and c from
0.01 µs on: only c·|w| counts, so that is c from 0.014 ms on here.
"""

from __future__ import annotations

from functools import partial

from benchmarks.nile import Setting, bars, compared, plot
from benchmarks.result import Result

COSTS = (1e-6, 1e-5, 1e-4, 2e-4, 3.5e-4, 5e-4, 7e-4)  # seconds


def run(quick: bool = False) -> Result:
    window, costs = (4.0, (1e-3, 6e-3)) if quick else (60.0, COSTS)
    settings = [Setting(cost, window, (1.0, 10.0)) for cost in costs]
    rows, agreed = compared("c ms", settings, 10 if quick else 100, seed=5)
    title = "Nile, figures 5, 7 and 8: response time against the cost of joining, |w| = 60 s"
    name = "Response time against c, 1 and 10 tuples/s (Nile, figures 5, 7, 8)"
    drawn = partial(plot, rows, "c ms", "c (ms)", name, "linear")
    found = [] if quick else bars(rows, "cost")
    return Result("nile_costs", title, rows, agreed, found, drawn)
