"""max_by and min_by: the value that stands beside the best key of each group.

Of equal keys the value itself decides, so that arrival makes no difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.types import Type
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.extremes import best_last, better, dtype_of, plain, unplain
from penstock.operators.folding.scatter import grown, spread
from penstock.state.chunks import Tree


class BestBy:
    """The best key of each group, the value beside it, and whether there is one."""

    def __init__(
        self, keys: npt.NDArray[Any], values: npt.NDArray[Any], present: npt.NDArray[np.bool_]
    ) -> None:
        self.keys = keys
        self.values = values
        self.present = present


class ExtremeBy(Aggregate[BestBy]):
    def __init__(self, argument: Type, by: Type, largest: bool) -> None:
        self.argument = argument
        self.by = by
        self.largest = largest

    def new(self, size: int) -> BestBy:
        keys, values = np.zeros(size, dtype_of(self.by)), np.zeros(size, dtype_of(self.argument))
        return BestBy(keys, values, np.zeros(size, np.bool_))

    def grow(self, partial: BestBy, size: int) -> None:
        partial.keys = grown(partial.keys, size, 0)
        partial.values = grown(partial.values, size, 0)
        partial.present = grown(partial.present, size, False)

    def fold(self, partial: BestBy, codes: Codes, arguments: list[pa.Array], _: Ints) -> None:
        if len(codes) == 0:
            return
        values, keys = plain(arguments[0], self.argument), plain(arguments[1], self.by)
        best = best_last(codes, keys, values, self.largest)
        self._take(partial, codes[best], keys[best], values[best])

    def merge(self, partial: BestBy, other: BestBy) -> None:
        groups = np.flatnonzero(other.present)
        self._take(partial, groups, other.keys[groups], other.values[groups])

    def _take(
        self, partial: BestBy, groups: Codes, keys: npt.NDArray[Any], values: npt.NDArray[Any]
    ) -> None:
        """Replace the best of some groups (each named once) where the new one is better."""
        old = partial.keys[groups]
        ahead, behind = better(keys, old, self.largest), better(old, keys, self.largest)
        equal = ~ahead & ~behind & better(values, partial.values[groups], self.largest)
        found: Mask = ahead | equal | ~partial.present[groups]
        chosen = groups[found]
        partial.keys[chosen], partial.values[chosen] = keys[found], values[found]
        partial.present[chosen] = True

    def take(self, partial: BestBy, codes: Codes) -> BestBy:
        return BestBy(partial.keys[codes], partial.values[codes], partial.present[codes])

    def spread(self, partial: BestBy, codes: Codes, size: int) -> BestBy:
        return BestBy(
            spread(partial.keys, codes, size),
            spread(partial.values, codes, size),
            spread(partial.present, codes, size),
        )

    def save(self, partial: BestBy) -> Tree:
        columns = [(partial.keys, self.by), (partial.values, self.argument)]
        keys, values = (
            unplain(each, partial.present, sql_type) if each.dtype == object else each
            for each, sql_type in columns
        )
        return {"keys": keys, "values": values, "present": partial.present}

    def load(self, saved: Tree) -> BestBy:
        loaded = self.new(len(saved["present"]))
        loaded.present = saved["present"]
        loaded.keys = _restored(saved["keys"], loaded.keys, loaded.present, self.by)
        loaded.values = _restored(saved["values"], loaded.values, loaded.present, self.argument)
        return loaded

    def finish(self, partial: BestBy, codes: Codes) -> pa.Array:
        return unplain(partial.values[codes], partial.present[codes], self.argument)


def _restored(saved: Tree, empty: npt.NDArray[Any], present: Mask, sql_type: Type) -> Any:
    if not isinstance(saved, pa.Array):
        return saved
    empty[present] = plain(saved.filter(pa.array(present)), sql_type)
    return empty
