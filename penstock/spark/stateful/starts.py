"""What the sub-sources of one task had promised before a micro-batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.promises.by_sub_source import NOTHING, ranks_within, running_highest
from penstock.promises.sub_source_bounds import highest_of_each


@dataclass(frozen=True, slots=True)
class Starts:
    """The bounds of sub-sources by their places in the report, their numbers in the register, and
    what SLACK held back."""

    codes: Codes
    bounds: Ints
    sizes: Ints
    recent: Ints
    slack: int

    def of_rows(self, places: Ints, numbers: Ints | None) -> Ints:
        """The bound before each row as far as earlier micro-batches made it."""
        if numbers is None:
            settled = np.maximum(self.bounds, highest_of_each(self.sizes, self.recent))
            of_rows: Ints = settled[places]
            return of_rows
        return np.maximum(self.bounds[places], self.passed(places, numbers))

    def passed(self, places: Ints, after: Ints) -> Ints:
        """The highest of what was held back that has been released after so many rows."""
        if not self.slack:
            return np.full(len(places), NOTHING)
        sizes = self.sizes[places]
        released = np.clip(sizes + after - self.slack, 0, sizes)
        begins = np.cumsum(self.sizes + 1) - (self.sizes + 1)
        passed: Ints = self._highest()[begins[places] + released]
        return passed

    def _highest(self) -> Ints:
        """For each sub-source the highest of none, one, two… of what was held back."""
        sizes = self.sizes + 1
        values = np.full(int(sizes.sum()), NOTHING)
        first = ranks_within(sizes) == 0
        values[~first] = self.recent
        return running_highest(values, first)
