"""What the steps of a join take: the table that its plans are chosen by.

`python -m benchmarks.join_constants` measures it: many plans of random joins are run, and
the numbers are about those that fit their times best; the queries that plans are judged by are
others.  They are of one machine; on another they differ by a factor that most steps share, so the
order of plans stays.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """How often something is done: batches that come to an operator, and that look for partners;
    tuples that are put into an index, tuples that are put in order to ask for partners, places that
    are looked at in between, partners that are found, and cells that are written.

    >>> (Work(found=2) + Work(cells=3)) * 2 == Work(found=4, cells=6)
    True
    """

    batches: float = 0.0
    calls: float = 0.0
    recorded: float = 0.0
    asked: float = 0.0
    looked: float = 0.0
    found: float = 0.0
    cells: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.batches + other.batches,
            self.calls + other.calls,
            self.recorded + other.recorded,
            self.asked + other.asked,
            self.looked + other.looked,
            self.found + other.found,
            self.cells + other.cells,
        )

    def __mul__(self, times: float) -> Work:
        return Work(
            self.batches * times,
            self.calls * times,
            self.recorded * times,
            self.asked * times,
            self.looked * times,
            self.found * times,
            self.cells * times,
        )

    @property
    def time(self) -> float:
        """Nanoseconds."""
        return (
            BATCH * self.batches
            + CALL * self.calls
            + RECORD * self.recorded
            + ASK * self.asked
            + LOOK * self.looked
            + FIND * self.found
            + CELL * self.cells
        )


BATCH = 310000.0
CALL = 290000.0
RECORD = 140.0
ASK = 50.0
LOOK = 1.0  # this and FIND are given: joins that ask more look and find more, too
FIND = 10.0
CELL = 2.4
