"""A join on a simulated clock: looking at a tuple of the other stream takes a fixed time."""

from __future__ import annotations

from typing import Any

from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item

SECOND = 1_000_000_000


class Timer:
    """Nanoseconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def costing(operator: Any, timer: Timer, nanoseconds: int, window: int) -> Any:
    """The operator, in which it takes so long to look at a tuple of the other stream that is not
    older than the window."""
    join = operator.join
    on_batch = join.on_batch
    joined: tuple[list[int], list[int]] = ([], [])

    def slowly(port: int, batch: Batch) -> list[Item]:
        for tick in batch.rows.column(1).to_pylist():
            seen = sum(1 for other in joined[1 - port] if other >= tick - window)
            timer.now += nanoseconds * seen
            joined[port].append(tick)
        return list(on_batch(port, batch))

    join.on_batch = slowly
    return operator
