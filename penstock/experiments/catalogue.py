"""All experiments by name."""

from __future__ import annotations

from collections.abc import Callable

from penstock.experiments.bursts import burst_sizes
from penstock.experiments.experiment_clock import Conduct
from penstock.experiments.figure import Figure
from penstock.experiments.idle_waiting import latency, queues
from penstock.experiments.nested_unions import burstiness, carriage
from penstock.experiments.schedules import scheduling

EXPERIMENTS: dict[str, Callable[[Conduct], Figure]] = {
    "figure-4": scheduling,
    "figure-7": latency,
    "figure-8": queues,
    "figure-14": burst_sizes,
    "figure-15": carriage,
    "figure-16": burstiness,
}
