"""What has been seen of an operator at work, between two looks at it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.physical.node import PhysicalNode


@dataclass(frozen=True, slots=True)
class ObservedInput:
    """Tuples that have come to a port, in how many batches; how many ticks its promise has moved
    on, and how many it is behind the newest tuple; and some of the tuples that are kept."""

    rows: int
    batches: int
    ticks: float
    disorder: float
    sample: pa.RecordBatch | None = None

    @property
    def rate(self) -> float:
        """Tuples a tick."""
        return max(self.rows, 1e-3) / self.ticks

    @property
    def batch(self) -> float:
        return max(1.0, self.rows / max(1, self.batches))


@dataclass(frozen=True, slots=True)
class Observations:
    """`results` are the rows that have left."""

    inputs: tuple[ObservedInput, ...]
    results: int


@dataclass(frozen=True, slots=True)
class Better:
    """A node that would take less: `then` nanoseconds a tuple instead of `now`, both by the same
    statistics; what each is called, and what it was decided by."""

    node: PhysicalNode
    now: float
    then: float
    before: str
    after: str
    because: str

    @property
    def times(self) -> float:
        """As fast."""
        return self.now / max(self.then, 1e-9)
