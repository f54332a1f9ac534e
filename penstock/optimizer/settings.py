"""What whoever runs queries can say about how they are to be run."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import PlanError
from penstock.operators.joins.ordered.adaptive_join import ALPHA
from penstock.physical.host import Host

STATE_BUDGET = 1_000_000_000
BROADCAST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """`state_budget` is how many bytes the state of a window aggregation should not exceed, and
    `host` who executes the plan.  On Spark, tables of at most `broadcast_rows` rows are at hand
    wherever tuples are; larger ones are split by their keys.  `alpha` is how much of the time an
    adaptive join may be at work before it joins tuples ahead of their turn: then results come
    α / (1 + α) sooner.  `as_begun` is said of a run that goes on: what a rule has chosen by what
    was known of the data then is what it chooses now."""

    state_budget: int = STATE_BUDGET
    host: Host = Host.LOCAL
    broadcast_rows: int = BROADCAST_ROWS
    alpha: float = ALPHA
    as_begun: bool = False

    def __post_init__(self) -> None:
        if self.broadcast_rows < 0:
            raise PlanError(f"tables of {self.broadcast_rows} rows", expected="0 or more")
        if self.state_budget < 0:
            raise PlanError(f"a budget of {self.state_budget} bytes", expected="0 or more")
        if not 0 <= self.alpha < 1:
            raise PlanError(f"an α of {self.alpha}", expected="from 0 to below 1")
