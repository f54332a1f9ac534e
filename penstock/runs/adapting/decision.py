"""What has been decided about an operator at work, in words for people."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from penstock.plan.algorithms import duration
from penstock.state.chunks import Tree


@dataclass(frozen=True, slots=True)
class Decision:
    """An operator of some queries was exchanged for another: what it was called before and after,
    what a tuple was expected to take in each, in nanoseconds, and what that was decided by;
    `tuples` had come to it by then; `took` nanoseconds to move its state.

    >>> told = Decision("Join-1", 90_000, "WID", "PANED", 900.0, 300.0, "9 groups", 1_500_000)
    >>> print(told)
    Join-1, after 90,000 tuples: WID -> PANED, 300 ns instead of 900 ns a tuple (9 groups); 1.5 ms
    """

    operator: str
    tuples: int
    before: str
    after: str
    time_before: float
    time_after: float
    because: str
    took: int

    def save(self) -> Tree:
        return list(astuple(self))

    @staticmethod
    def load(saved: Tree) -> Decision:
        return Decision(*saved)

    def __str__(self) -> str:
        times = f"{duration(self.time_after)} instead of {duration(self.time_before)} a tuple"
        return (
            f"{self.operator}, after {self.tuples:,} tuples: {self.before} -> {self.after},"
            f" {times} ({self.because}); {duration(self.took)}"
        )
