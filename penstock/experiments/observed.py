"""What came of a run: when each tuple left, how many waited, and who waited idly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.experiments.trial import passing
from penstock.experiments.tuple_times import SECOND, TupleTimes
from penstock.model.arrays import Floats, Ints

WHILE = 0.02  # seconds: burstiness is that of rows counted for so long, as in the paper


@dataclass(frozen=True)
class Observed:
    """Times are in microseconds.  A tuple that has not left, or never will, has no latency."""

    numbers: Ints  # of the rows, in the order in which they left
    left: Floats  # when that was
    arrived: Floats  # when the tuples of these numbers came
    peak: int  # the most tuples in all buffers and operators together
    idle: float  # the time that the last union, or whoever puts rows in order, has waited idly
    duration: float

    @staticmethod
    def of(
        arrivals: TupleTimes,
        rows: list[tuple[float, Ints]],
        peak: int,
        idle: float,
        duration: float,
    ) -> Observed:
        numbers = np.concatenate([each for _, each in rows]) if rows else np.empty(0, np.int64)
        left = np.repeat([when for when, _ in rows], [len(each) for _, each in rows])
        known = (numbers >= 0) & (numbers < len(arrivals))  # others are results of aggregates
        arrived = np.full(len(numbers), np.nan)
        arrived[known] = arrivals.times[numbers[known]]
        return Observed(numbers, np.asarray(left, float), arrived, peak, idle, duration)

    @property
    def latencies(self) -> Floats:
        taken: Floats = (self.left - self.arrived)[~np.isnan(self.arrived)]
        return taken

    @property
    def median(self) -> float:
        """Milliseconds."""
        return float(np.median(self.latencies)) / 1000

    @property
    def mean(self) -> float:
        return float(np.mean(self.latencies)) / 1000

    @property
    def idle_share(self) -> float:
        return self.idle / self.duration

    @property
    def burstiness(self) -> float:
        """The difference between most and fewest rows in a while, by the average."""
        width = WHILE * SECOND
        edges = np.arange(0, self.duration + 1, width)
        counts, _ = np.histogram(self.left, edges)
        return float((counts.max() - counts.min()) / counts.mean())


def most_inside(arrivals: TupleTimes, rows: list[tuple[float, Ints]]) -> int:
    """The most tuples that had come and not left, of those that pass the filters."""
    came = arrivals.times[passing(len(arrivals))].astype(float)
    left = np.repeat([when for when, _ in rows], [len(each) for _, each in rows])
    moments = np.concatenate([came, left])
    change = np.concatenate([np.ones(len(came), int), -np.ones(len(left), int)])
    order = np.argsort(moments, kind="stable")
    return int(np.cumsum(change[order]).max(initial=0))
