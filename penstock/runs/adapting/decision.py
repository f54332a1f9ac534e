"""What has been decided about an operator at work, in words for people."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from penstock.plan.algorithms import duration
from penstock.state.chunks import Tree


@dataclass(frozen=True, slots=True)
class Decision:
    """An operator of some queries was exchanged for another: what it was called before and after,
    what a tuple was expected to take in each, in nanoseconds, if that decided, and what that was
    decided by; `tuples` had come to it by then; `took` nanoseconds to move its state.

    >>> told = Decision("Join-1", 9_000, "WID", "PANED", 900.0, 300.0, "seen", 1_000_000)
    >>> print(told)
    Join-1, after 9,000 tuples: WID -> PANED, 300 ns instead of 900 ns a tuple (seen); moved in 1 ms
    """

    operator: str
    tuples: int
    before: str
    after: str
    time_before: float | None
    time_after: float | None
    because: str
    took: int

    def save(self) -> Tree:
        return list(astuple(self))

    @staticmethod
    def load(saved: Tree) -> Decision:
        return Decision(*saved)

    def __str__(self) -> str:
        what = f"{self.operator}, after {self.tuples:,} tuples: {self.before} -> {self.after}"
        if self.time_before is not None and self.time_after is not None:
            times = f"{duration(self.time_after)} instead of {duration(self.time_before)}"
            what += f", {times} a tuple"
        return f"{what} ({self.because}); moved in {duration(self.took)}"
