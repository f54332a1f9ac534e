"""Segments of a path of operators, as Chain has them: where rows become fewer fastest comes first.

The progress chart of a path says how much of a row is left after how much time in its operators.
The lower envelope of the chart is made of straight lines, each as steep as can be; the operators
under one of them are a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise


@dataclass(frozen=True, slots=True)
class Segment:
    """The operators of a path from `begin` to before `end`, and how many rows fewer there are for
    every nanosecond in them."""

    begin: int
    end: int
    slope: float


def segments(path: Sequence[tuple[float, float]]) -> list[Segment]:
    """By the time per row and the selectivity of each operator; behind the last one, rows leave.

    A cheap filter that lets half of the rows pass, a slow function, and a filter that lets few of
    them pass: the function belongs to the filter behind it.

    >>> [(each.begin, each.end) for each in segments([(1, 0.5), (8, 1), (1, 0.01), (50, 1)])]
    [(0, 1), (1, 3), (3, 4)]
    """
    sizes = [1.0, *accumulate((selectivity for _, selectivity in path), lambda a, b: a * b)]
    spent = [size * time for size, (time, _) in zip(sizes, path, strict=False)]
    times = [0.0, *accumulate(spent)]
    sizes[-1] = 0.0
    points = list(zip(times, sizes, strict=True))
    cuts = [0]
    while cuts[-1] < len(path):
        begin = cuts[-1]
        ends = range(begin + 1, len(points))
        cuts.append(max(ends, key=lambda end: (_slope(points[begin], points[end]), end)))
    return [Segment(a, b, _slope(points[a], points[b])) for a, b in pairwise(cuts)]


def _slope(begin: tuple[float, float], end: tuple[float, float]) -> float:
    """How much steeper down it goes than level; an operator without a cost has the least one."""
    return (begin[1] - end[1]) / max(end[0] - begin[0], 1e-9)
