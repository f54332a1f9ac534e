"""Figure 6-12 of the thesis: latency against accuracy under block-sorted disorder, count over RANGE
600 s, SLIDE 60 s.

A router hands out its records every 490 s, all at once and in no order.  Slack below 490 s gives
wrong answers, and slack above it right ones, a whole block later.  Punctuation after each block is
exact and does not wait for the next one.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.disorder import Arrivals, compared, plot
from benchmarks.result import Result

SLACKS = (0, 54_400, 109_100, 218_200, 327_300, 434_200, 490_900, 600_000)  # ms
BLOCK = 490  # s
BURST = 10  # s, in which the records of a block come
SQL = "SELECT count(*) AS n [RANGE 600000, SLIDE 60000, WA t] FROM s"


def run(quick: bool = False) -> Result:
    rows, agreed = compared(
        SQL,
        blocks(*((4, 1) if quick else (20, 4))),
        SLACKS[-2:-1] if quick else SLACKS,
        wrong_answers,
    )
    title = "Figure 6-12: block-sorted disorder, count, RANGE 600 s, SLIDE 60 s"
    name = "Latency against accuracy, block-sorted disorder (thesis, figure 6-12)"
    drawn = partial(plot, rows, name, "wrong results (%)")
    return Result("figure_6_12", title, rows, agreed, plot=drawn)


def blocks(count: int, per_second: int) -> Arrivals:
    generator = np.random.default_rng(12)
    size = BLOCK * per_second
    stamps = np.arange(count * size) * 1000 // per_second
    stamps = np.concatenate([generator.permutation(block) for block in stamps.reshape(count, size)])
    place = np.arange(count * size)
    arrival = (place // size + 1) * BLOCK * 1000 + place % size * BURST * 1000 // size
    return Arrivals(arrival, stamps, every=100)


def wrong_answers(found: list[float], true: list[float]) -> float:
    return 100 * float(np.mean([one != other for one, other in zip(found, true, strict=True)]))
