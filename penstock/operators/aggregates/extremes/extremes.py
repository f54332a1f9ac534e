"""min, max, first and last: the best value per group by some order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.first_rows import first_rows
from penstock.model.types import Type
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.extremes.best_rows import best_rows, fold_numbers
from penstock.operators.aggregates.plain_columns import dtype_of, plain, unplain
from penstock.operators.folding.scatter import grown, spread
from penstock.state.chunks import Tree


class Best:
    """The best value of each group, where it stood, and whether there is one."""

    def __init__(self, size: int, dtype: npt.DTypeLike) -> None:
        self.values: npt.NDArray[Any] = np.zeros(size, dtype)
        self.positions: Ints = np.zeros(size, np.int64)
        self.present: npt.NDArray[np.bool_] = np.zeros(size, np.bool_)

    def grow(self, size: int) -> None:
        self.values = grown(self.values, size, 0)
        self.positions = grown(self.positions, size, 0)
        self.present = grown(self.present, size, False)


class Extreme(Aggregate[Best]):
    """The smallest or largest value (NaN is the largest number), or the value at the lowest or
    highest position, where equal positions are decided by the value."""

    def __init__(self, argument: Type, largest: bool, by_position: bool) -> None:
        self.argument = argument
        self.largest = largest
        self.by_position = by_position

    def new(self, size: int) -> Best:
        return Best(size, dtype_of(self.argument))

    def grow(self, partial: Best, size: int) -> None:
        partial.grow(size)

    def fold(self, partial: Best, codes: Codes, arguments: list[pa.Array], positions: Ints) -> None:
        if len(codes) == 0:
            return
        values = plain(arguments[0], self.argument)
        if self.by_position:
            rows = best_rows(codes, positions, self.largest)
            rows = rows[one_of_each(codes[rows], values[rows], self.largest)]
            self._take(partial, codes[rows], positions[rows], values[rows])
        elif values.dtype == object:
            rows = one_of_each(codes, values, self.largest)
            self._take(partial, codes[rows], np.zeros(len(rows), np.int64), values[rows])
        else:
            fold_numbers(partial.values, partial.present, codes, values, self.largest)

    def merge(self, partial: Best, other: Best) -> None:
        groups = np.flatnonzero(other.present)
        self._take(partial, groups, other.positions[groups], other.values[groups])

    def take(self, partial: Best, codes: Codes) -> Best:
        taken = Best(0, partial.values.dtype)
        taken.values, taken.positions = partial.values[codes], partial.positions[codes]
        taken.present = partial.present[codes]
        return taken

    def spread(self, partial: Best, codes: Codes, size: int) -> Best:
        wide = Best(0, partial.values.dtype)
        wide.values = spread(partial.values, codes, size)
        wide.positions = spread(partial.positions, codes, size)
        wide.present = spread(partial.present, codes, size)
        return wide

    def save(self, partial: Best) -> Tree:
        values: Tree = partial.values
        if partial.values.dtype == object:
            values = unplain(partial.values, partial.present, self.argument)
        positions = partial.positions if self.by_position else None
        return {"values": values, "positions": positions, "present": partial.present}

    def load(self, saved: Tree) -> Best:
        present, values = saved["present"], saved["values"]
        loaded = Best(len(present), dtype_of(self.argument))
        if isinstance(values, pa.Array):
            loaded.values[present] = plain(values.filter(pa.array(present)), self.argument)
        else:
            loaded.values = values
        if saved["positions"] is not None:
            loaded.positions = saved["positions"]
        loaded.present = present
        return loaded

    def _take(self, partial: Best, groups: Codes, places: Ints, values: npt.NDArray[Any]) -> None:
        """Replace the best of some groups (each named once) where the new one is better."""
        old, old_places = partial.values[groups], partial.positions[groups]
        wins = better(values, old, self.largest)
        if self.by_position:
            ahead = places > old_places if self.largest else places < old_places
            wins = ahead | ((places == old_places) & wins)
        wins = wins | ~partial.present[groups]
        chosen = groups[wins]
        partial.values[chosen] = values[wins]
        partial.positions[chosen] = places[wins]
        partial.present[chosen] = True

    def finish(self, partial: Best, codes: Codes) -> pa.Array:
        return unplain(partial.values[codes], partial.present[codes], self.argument)


def better(new: npt.NDArray[Any], old: npt.NDArray[Any], largest: bool) -> npt.NDArray[np.bool_]:
    """Which values are better than others beside them."""
    if new.dtype == object:
        # what was never set is the number 0, which other values cannot be compared with
        pairs = zip(new, old, strict=True)
        return np.array(
            [type(a) is type(b) and ((a > b) if largest else (a < b)) for a, b in pairs], np.bool_
        )
    if new.dtype == np.float64:
        with np.errstate(invalid="ignore"):
            above = (new > old) | (np.isnan(new) & ~np.isnan(old))
            below = (new < old) | (np.isnan(old) & ~np.isnan(new))
        return np.asarray(above if largest else below)
    wins: npt.NDArray[np.bool_] = new > old if largest else new < old
    return wins


def one_of_each(codes: Codes, values: npt.NDArray[Any], largest: bool) -> Ints:
    """A row of each group whose value is the best."""
    if values.dtype == object:
        values = np.unique(values, return_inverse=True)[1].astype(np.int64)
    rows = best_rows(codes, values, largest)
    found: Ints = rows[first_rows(codes[rows])[0]]
    return found
