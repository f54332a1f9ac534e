"""Late tuples of windows over values, where some of them are amended."""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.types import Type
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.operator import LateRows
from penstock.operators.revising.amendment import with_amended
from penstock.operators.windows.results import Missed
from penstock.windows.columns import floor_div
from penstock.windows.landmark import Landmark
from penstock.windows.sliding import Sliding


class LateForWindows:
    """`grace` is how far behind the bound late tuples still count; None: they always do."""

    def __init__(
        self,
        window: Sliding | Landmark,
        bound: BoundOf,
        grace: int | None,
        types: tuple[Type, Type],
    ) -> None:
        """`types` are those of the attribute and of the windows' ids."""
        self._slide, self._origin = window.slide, window.origin
        self._bound, self._grace = bound, grace
        self._types = types

    def split(self, batch: Batch, first: Ints, stop: Ints) -> tuple[Ints, LateRows | None]:
        """From which window on each tuple counts, of those from `first` to before `stop`, and the
        tuples that came late."""
        if batch.broken is None:
            return first, None
        broke, bounds = self._bound.broken(batch)
        open_ = floor_div(bounds, plus=-self._origin, by=self._slide)
        missing = (open_ > first[broke]) & (first[broke] < stop[broke])
        if not missing.any():
            return first, None
        late, bounds = broke[missing], bounds[missing]
        first_missed, stops = first[late], stop[late]
        begin = first.copy()
        if self._grace is not None:
            left = floor_div(bounds, plus=-self._origin - self._grace, by=self._slide)
            begin[late] = np.clip(left, first_missed, stops)
        missed = Missed(late, bounds, first_missed, np.minimum(open_[missing], stops) - 1)
        found = missed.late_rows(batch.rows, *self._types)
        if self._grace:  # neither none at all nor for ever: then it has to be said
            found = with_amended(found, begin[late] == first_missed)
        return begin, found
