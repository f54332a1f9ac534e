"""Tuples that come to a join: they look for partners among those that were kept, and are kept
themselves.  Many are sorted first, because they are found much faster in order; few are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.operators.batch import Signs
from penstock.operators.joins.partners.looking_up import find_few, find_many
from penstock.operators.joins.partners.newest import FEW
from penstock.operators.joins.partners.pairs import Found
from penstock.operators.joins.partners.side import Side
from penstock.operators.joins.partners.sorted_run import SortedRun
from penstock.operators.joins.partners.tuples import Tuples

# from which time to which the partners of tuples are
Partners: TypeAlias = Callable[[Ints], tuple[Ints, Ints]]


class ManyArrivals:
    """In the order of keys and times."""

    def __init__(self, tuples: Tuples, partners: Partners, side: Side) -> None:
        self._run = run = SortedRun.of(tuples, side.places)
        self._codes = tuples.codes[run.order]
        self.lows, self.highs = partners(tuples.ticks[run.order])
        self.fit: Mask = self.highs >= self.lows  # there are such times

    @property
    def rows(self) -> pa.RecordBatch:
        return self._run.rows

    @property
    def signs(self) -> Signs | None:
        return self._run.signs

    @property
    def lineage(self) -> Ints | None:
        return self._run.lineage

    def found(self, side: Side) -> list[Found]:
        columns = (self._codes, self.lows, self.highs)
        return find_many(side, *columns, self._run.order, bool(self.fit.all()))

    def of_rows(self, flags: Mask) -> Mask:
        """Flags of rows, in this order."""
        return flags[self._run.order]

    def in_rows(self, flags: Mask) -> Mask:
        """The other way round."""
        placed = np.empty_like(flags)
        placed[self._run.order] = flags
        return placed

    def keep(self, side: Side, stays: Mask, done: Mask | None) -> None:
        staying = np.count_nonzero(stays)
        if staying:
            run = self._run if done is None else self._run.with_done(done)
            side.add(run if staying == len(stays) else run.only(stays))


class FewArrivals:
    """As they came."""

    def __init__(self, tuples: Tuples, partners: Partners) -> None:
        self._tuples = tuples
        self.lows, self.highs = partners(tuples.ticks)
        self.fit: Mask = self.highs >= self.lows

    @property
    def rows(self) -> pa.RecordBatch:
        return self._tuples.rows

    @property
    def signs(self) -> Signs | None:
        return self._tuples.signs

    @property
    def lineage(self) -> Ints | None:
        return self._tuples.lineage

    def found(self, side: Side) -> list[Found]:
        return find_few(side, self._tuples.codes, self.lows, self.highs)

    def of_rows(self, flags: Mask) -> Mask:
        return flags

    def in_rows(self, flags: Mask) -> Mask:
        return flags

    def keep(self, side: Side, stays: Mask, done: Mask | None) -> None:
        tuples = self._tuples if done is None else self._tuples.with_done(done)
        side.add_few(tuples.only(stays))


Arrivals: TypeAlias = ManyArrivals | FewArrivals


def arrivals(tuples: Tuples, partners: Partners, side: Side) -> Arrivals:
    """Tuples that may be kept at a side."""
    if len(tuples) <= FEW:
        return FewArrivals(tuples, partners)
    return ManyArrivals(tuples, partners, side)
