"""What the steps of a join take: the table that its plans are chosen by.

`python -m benchmarks.join_constants` measures such numbers on plans of random joins; measuring
single kernels has completed them.  Which steps are told apart was decided by looking at the five
queries of `benchmarks/join_orders.py`, too.  The numbers are of one machine; on another they differ
by a factor that most steps share, so the order of plans stays.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """How often something is done: batches that come to an operator, and that look for partners;
    tuples that stay in an index, how often these are put together with others until they leave it,
    tuples that are put in order for it, and tuples whose several keys are hashed; combinations that
    ask for partners, places that are looked at in between, partners that are found, and cells that
    are written; rows that wait for their turn, and how often some of them leave.

    >>> (Work(found=2) + Work(cells=3)) * 2 == Work(found=4, cells=6)
    True
    """

    batches: float = 0.0
    calls: float = 0.0
    recorded: float = 0.0
    merged: float = 0.0
    placed: float = 0.0
    hashed: float = 0.0
    asked: float = 0.0
    looked: float = 0.0
    found: float = 0.0
    cells: float = 0.0
    waited: float = 0.0
    releases: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.batches + other.batches,
            self.calls + other.calls,
            self.recorded + other.recorded,
            self.merged + other.merged,
            self.placed + other.placed,
            self.hashed + other.hashed,
            self.asked + other.asked,
            self.looked + other.looked,
            self.found + other.found,
            self.cells + other.cells,
            self.waited + other.waited,
            self.releases + other.releases,
        )

    def __mul__(self, times: float) -> Work:
        return Work(
            self.batches * times,
            self.calls * times,
            self.recorded * times,
            self.merged * times,
            self.placed * times,
            self.hashed * times,
            self.asked * times,
            self.looked * times,
            self.found * times,
            self.cells * times,
            self.waited * times,
            self.releases * times,
        )

    @property
    def time(self) -> float:
        """Nanoseconds."""
        return (
            BATCH * self.batches
            + CALL * self.calls
            + RECORD * self.recorded
            + MERGE * self.merged
            + PLACE * self.placed
            + HASH * self.hashed
            + ASK * self.asked
            + LOOK * self.looked
            + FIND * self.found
            + CELL * self.cells
            + WAIT * self.waited
            + RELEASE * self.releases
        )


BATCH = 245000.0
CALL = 210000.0
RECORD = 40.0
MERGE = 25.0
PLACE = 25.0
HASH = 30.0
ASK = 27.0
LOOK = 2.0
FIND = 8.0
CELL = 2.1
WAIT = 10.0
RELEASE = 50000.0
