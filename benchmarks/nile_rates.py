"""Figures 6, 9 and 10 of the Nile paper: the response time of ordered window joins against the rate
of the slow stream.

λ2 is 10 tuples a second, the window a minute, c half a millisecond.  The slower the slow stream,
the longer everybody waits for it, and the less it matters when the joining is done.
"""

from __future__ import annotations

from functools import partial

from benchmarks.nile import Setting, bars, compared, plot
from benchmarks.result import Result

RATES = (0.05, 0.1, 0.2, 0.5, 1.0, 1.3)  # tuples a second


def run(quick: bool = False) -> Result:
    window, rates = (4.0, (0.5, 1.0)) if quick else (60.0, RATES)
    settings = [Setting(5e-4, window, (rate, 10.0)) for rate in rates]
    rows, agreed = compared("λ1", settings, 10 if quick else 50, seed=9)
    title = "Nile, figures 6, 9 and 10: response time against the slow stream's rate, c = 0.5 ms"
    name = "Response time against λ1, λ2 = 10/s, c = 0.5 ms (Nile, figures 6, 9, 10)"
    drawn = partial(plot, rows, "λ1", "rate of the slow stream (tuples/s)", name, "log")
    found = [] if quick else bars(rows, "rate")
    return Result("nile_rates", title, rows, agreed, found, drawn)
