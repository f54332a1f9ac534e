"""How an experiment is run: on the simulated clock, or for a while by the clock on the wall."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.experiments.costs import Costs
from penstock.experiments.observed import Observed
from penstock.experiments.real_time import in_real_time
from penstock.experiments.simulated import simulated
from penstock.experiments.trial import Trial
from penstock.experiments.tuple_times import TupleTimes

COSTS = Costs(entry=70, tuple=25, progress=20)
"""What the engine takes on a machine of today, rounded: tuples that come alone, in microseconds."""


@dataclass(frozen=True, slots=True)
class Conduct:
    real_time: bool = False
    quick: bool = False  # enough to see the shape

    def seconds(self, full: float, small: float, real: float) -> float:
        """How long tuples come."""
        return real if self.real_time else small if self.quick else full

    def run(self, trial: Trial, arrivals: TupleTimes, costs: Costs = COSTS) -> Observed:
        if self.real_time:
            return in_real_time(trial, arrivals)
        return simulated(trial, arrivals, costs)

    def run_slowly(
        self, trial: Trial, arrivals: TupleTimes, times: int, costs: Costs = COSTS
    ) -> Observed:
        """By the clock on the wall in slow motion, so many times as slow, where operators really
        take what they are said to: what they take anyway is little beside it."""
        if self.real_time:
            return in_real_time(trial, arrivals.slowed(times), costs.slowed(times))
        return simulated(trial, arrivals, costs)
