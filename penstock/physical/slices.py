"""Where tuples meet that have no key in common, but have to be close in time: in slices of time."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import PlanError
from penstock.model.arrays import Ints
from penstock.model.domain import Domain
from penstock.plan.expressions import Column
from penstock.windows.columns import floor_div


@dataclass(frozen=True)
class TimeSlices:
    """Slices are `width` ticks long, and numbered from `origin` on.  A tuple goes to all from the
    one that is `low` ticks beside its time to the one that is `high` ticks beside it.

    Where the tuples of one input go to one slice each, and those of the other to all in which they
    may have partners, every pair meets in one slice, and so do all partners of a tuple of the first
    input.

    >>> import numpy as np
    >>> from penstock.model.types import INT
    >>> own, partners = TimeSlices(t := Column("t", INT), 20), TimeSlices(t, 20, low=-3, high=2)
    >>> own.first(np.array([17, 18, 22])), partners.first(np.array([17, 18, 22]))
    (array([0, 0, 1]), array([0, 0, 0]))
    >>> partners.last(np.array([17, 18, 22]))
    array([0, 1, 1])
    """

    attribute: Column
    width: int
    low: int = 0
    high: int = 0
    origin: int = 0

    def __post_init__(self) -> None:
        if self.width <= 0:
            raise PlanError(f"slices of {self.width} ticks", expected="1 or more")
        if self.low > self.high:
            raise PlanError(f"no slice is between {self.low} and {self.high} ticks beside a tuple")

    @property
    def one_each(self) -> bool:
        """Whether a tuple goes to one slice only."""
        return self.low == self.high

    def first(self, ticks: Ints) -> Ints:
        return floor_div(ticks, plus=self.low - self.origin % self.width, by=self.width)

    def last(self, ticks: Ints) -> Ints:
        return floor_div(ticks, plus=self.high - self.origin % self.width, by=self.width)

    def __str__(self) -> str:
        length = Domain(self.attribute.type).format_length(self.width)
        text = f"slices of {length} of {self.attribute}"
        return text if self.one_each else f"{text} in which they may have partners"
