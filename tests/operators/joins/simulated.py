"""A join on a simulated clock: looking at a tuple of the other stream takes a fixed time."""

from __future__ import annotations

from typing import Any

from penstock.operators.batch import Batch
from penstock.operators.operator import Item

SECOND = 1_000_000_000


class Timer:
    """Nanoseconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def costing(operator: Any, timer: Timer, nanoseconds: int) -> Any:
    """The operator, joining one tuple with another takes so long in which."""
    join = operator.join
    on_batch = join.on_batch

    def slowly(port: int, batch: Batch) -> list[Item]:
        timer.now += nanoseconds * batch.num_rows * len(join._sides[1 - port])
        found: list[Item] = on_batch(port, batch)
        return found

    join.on_batch = slowly
    return operator
