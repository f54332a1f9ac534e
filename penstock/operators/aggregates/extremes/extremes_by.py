"""max_by and min_by: the value that stands beside the best key of each group.

Of equal keys the value itself decides, so that arrival makes no difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.first_rows import first_rows
from penstock.model.types import Type
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.extremes.best_rows import best_rows
from penstock.operators.aggregates.extremes.extremes import better, one_of_each
from penstock.operators.aggregates.extremes.kept_values import KeptValues, kept_values
from penstock.operators.aggregates.plain_columns import dtype_of, plain, unplain
from penstock.operators.folding.scatter import grown, spread
from penstock.state.chunks import Tree


class BestBy:
    """The best key of each group, the value beside it, and whether there is one."""

    def __init__(self, keys: npt.NDArray[Any], values: KeptValues, present: Mask) -> None:
        self.keys = keys
        self.values = values
        self.present = present


class ExtremeBy(Aggregate[BestBy]):
    def __init__(self, argument: Type, by: Type, largest: bool) -> None:
        self.argument = argument
        self.by = by
        self.largest = largest

    def new(self, size: int) -> BestBy:
        keys = np.zeros(size, dtype_of(self.by))
        return BestBy(keys, kept_values(self.argument, size), np.zeros(size, np.bool_))

    def grow(self, partial: BestBy, size: int) -> None:
        partial.keys = grown(partial.keys, size, 0)
        partial.values.grow(size)
        partial.present = grown(partial.present, size, False)

    def fold(self, partial: BestBy, codes: Codes, arguments: list[pa.Array], _: Ints) -> None:
        if len(codes) == 0:
            return
        values, keys = arguments[0], plain(arguments[1], self.by)
        ranks = keys
        if keys.dtype == object:
            ranks = np.unique(keys, return_inverse=True)[1].astype(np.int64)
        rows = best_rows(codes, ranks, self.largest)
        rows = self._without_ties(codes, rows, values)
        if len(rows) < len(values):
            values = values.take(pa.array(rows))
        self._take(partial, codes[rows], keys[rows], values)

    def _without_ties(self, codes: Codes, rows: Ints, values: pa.Array) -> Ints:
        """One row of each group; of several with the best key, that with the best value.  Only
        those are compared."""
        first, numbers = first_rows(codes[rows])
        if len(first) == len(rows):
            return rows
        tied: Mask = np.bincount(numbers)[numbers] > 1
        several = rows[tied]
        among = plain(values.take(pa.array(several)), self.argument)
        chosen = several[one_of_each(codes[several], among, self.largest)]
        return np.concatenate([rows[~tied], chosen])

    def merge(self, partial: BestBy, other: BestBy) -> None:
        groups = np.flatnonzero(other.present)
        values = other.values.column(groups, np.ones(len(groups), np.bool_))
        self._take(partial, groups, other.keys[groups], values)

    def _take(
        self, partial: BestBy, groups: Codes, keys: npt.NDArray[Any], values: pa.Array
    ) -> None:
        """Replace the best of some groups (each named once) where the new one is better."""
        present, old = partial.present[groups], partial.keys[groups]
        found: Mask = better(keys, old, self.largest) | ~present
        tied = np.flatnonzero(~found & ~better(old, keys, self.largest))
        if len(tied):
            new = plain(values.take(pa.array(tied)), self.argument)
            found[tied] = better(new, partial.values.comparable(groups[tied]), self.largest)
        if not found.all():
            groups, keys, values = groups[found], keys[found], values.filter(pa.array(found))
        if len(groups):
            partial.keys[groups] = keys
            partial.values.put(groups, values)
            partial.present[groups] = True

    def take(self, partial: BestBy, codes: Codes) -> BestBy:
        return BestBy(partial.keys[codes], partial.values.take(codes), partial.present[codes])

    def spread(self, partial: BestBy, codes: Codes, size: int) -> BestBy:
        return BestBy(
            spread(partial.keys, codes, size),
            partial.values.spread(codes, size),
            spread(partial.present, codes, size),
        )

    def save(self, partial: BestBy) -> Tree:
        keys: Tree = partial.keys
        if partial.keys.dtype == object:
            keys = unplain(partial.keys, partial.present, self.by)
        everything = np.arange(len(partial.present))
        values: Tree = partial.values.column(everything, partial.present)
        if dtype_of(self.argument) is not object:
            values = partial.values.comparable(everything)
        return {"keys": keys, "values": values, "present": partial.present}

    def load(self, saved: Tree) -> BestBy:
        loaded = self.new(len(saved["present"]))
        loaded.present = saved["present"]
        there = np.flatnonzero(loaded.present)
        keys, values = saved["keys"], saved["values"]
        if isinstance(keys, pa.Array):
            loaded.keys[there] = plain(keys.take(pa.array(there)), self.by)
        else:
            loaded.keys = keys
        if not isinstance(values, pa.Array):
            values = unplain(values, loaded.present, self.argument)
        loaded.values.put(there, values.take(pa.array(there)))
        return loaded

    def finish(self, partial: BestBy, codes: Codes) -> pa.Array:
        return partial.values.column(codes, partial.present[codes])
