"""Extremes of groups: min, max, first, last, max_by and min_by.  The best rows are found in tables
of groups, because sorting takes many times as long.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernel.aggregates.aggregate import Aggregate, dtype_of, plain, unplain
from penstock.kernel.grouping.key_codes import GrownColumn, grown, spread
from penstock.kernel.state import Tree
from penstock.model.arrays import Codes, Ints, Mask, first_rows
from penstock.model.types import INT64_MAX, INT64_MIN, Type

_GROUPS_IN_A_TABLE = 8  # times as many groups as rows, at most, in a table of them


def fold_numbers(
    values: npt.NDArray[Any], present: Mask, codes: Codes, new: npt.NDArray[Any], largest: bool
) -> None:
    """Let numbers replace those of their groups, in place, where they are better: NaN is the
    largest."""
    fresh = codes[~present[codes]]
    if values.dtype == np.float64:
        values[fresh] = -np.inf if largest else np.nan
        with np.errstate(invalid="ignore"):
            (np.maximum if largest else np.fmin).at(values, codes, new)
    else:
        values[fresh] = INT64_MIN if largest else INT64_MAX
        (np.maximum if largest else np.minimum).at(values, codes, new)
    present[fresh] = True


def best_rows(codes: Codes, keys: npt.NDArray[Any], largest: bool) -> Ints:
    """The rows that have the best key of their group, several if these are equal.

    >>> best_rows(np.array([0, 1, 0, 0]), np.array([5, 9, 7, 7]), largest=True)
    array([1, 2, 3])
    """
    ranks = in_order(keys)
    size = int(codes.max(initial=-1)) + 1
    if size > _GROUPS_IN_A_TABLE * len(codes):
        rows, codes = first_rows(codes)
        size = len(rows)
    if largest:
        best = np.full(size, INT64_MIN)
        np.maximum.at(best, codes, ranks)
    else:
        best = np.full(size, INT64_MAX)
        np.minimum.at(best, codes, ranks)
    found: Ints = np.flatnonzero(ranks == best[codes])
    return found


def in_order(numbers: npt.NDArray[Any]) -> Ints:
    """Whole numbers that are ordered as some numbers are: NaN is above all others.

    >>> in_order(np.array([np.nan, -1.0, 2.0, np.inf])).argsort()
    array([1, 2, 3, 0])
    """
    if numbers.dtype != np.float64:
        return numbers
    bits = numbers.view(np.int64)
    ranks: Ints = np.where(np.isnan(numbers), INT64_MAX, bits ^ ((bits >> 63) & INT64_MAX))
    return ranks


# Values kept per group: numbers in an array, everything else in an Arrow column, so that no value
# becomes an object of Python on its way.

_UNUSED = 2  # times as many values as groups, above which unused ones are dropped
_FEW_VALUES = 1024


class KeptValues(ABC):
    """A value for each group, as max_by and min_by keep it."""

    def __init__(self, sql_type: Type) -> None:
        self.type = sql_type

    @property
    @abstractmethod
    def nbytes(self) -> int: ...

    @abstractmethod
    def grow(self, size: int) -> None: ...

    @abstractmethod
    def put(self, codes: Codes, column: pa.Array) -> None:
        """Values of groups, each of which is named once."""

    @abstractmethod
    def comparable(self, codes: Codes) -> npt.NDArray[Any]:
        """The values of groups that have one."""

    @abstractmethod
    def column(self, codes: Codes, present: Mask) -> pa.Array:
        """The values of groups, NULL for one that is not `present`."""

    @abstractmethod
    def take(self, codes: Codes) -> KeptValues: ...

    @abstractmethod
    def spread(self, codes: Codes, size: int) -> KeptValues: ...


def kept_values(sql_type: Type, size: int) -> KeptValues:
    if dtype_of(sql_type) is object:
        return _Others(sql_type, np.zeros(size, np.int64), GrownColumn(_nothing(sql_type)))
    return _Numbers(sql_type, np.zeros(size, dtype_of(sql_type)))


class _Numbers(KeptValues):
    def __init__(self, sql_type: Type, values: npt.NDArray[Any]) -> None:
        super().__init__(sql_type)
        self._values = values

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def grow(self, size: int) -> None:
        self._values = grown(self._values, size, 0)

    def put(self, codes: Codes, column: pa.Array) -> None:
        self._values[codes] = plain(column, self.type)

    def comparable(self, codes: Codes) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self._values[codes]
        return found

    def column(self, codes: Codes, present: Mask) -> pa.Array:
        return unplain(self._values[codes], present, self.type)

    def take(self, codes: Codes) -> KeptValues:
        return _Numbers(self.type, self._values[codes])

    def spread(self, codes: Codes, size: int) -> KeptValues:
        return _Numbers(self.type, spread(self._values, codes, size))


class _Others(KeptValues):
    """The column only grows; the place of a group is where its value is, 0 if it has none."""

    def __init__(self, sql_type: Type, places: Ints, column: GrownColumn) -> None:
        super().__init__(sql_type)
        self._places = places
        self._column = column

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + self._column.nbytes

    def grow(self, size: int) -> None:
        self._places = grown(self._places, size, 0)

    def put(self, codes: Codes, column: pa.Array) -> None:
        if column.type != self.type.arrow:
            column = column.cast(self.type.arrow)
        begin = len(self._column)
        self._column.append(column)
        self._places[codes] = begin + np.arange(len(codes))
        if len(self._column) > _UNUSED * len(self._places) + _FEW_VALUES:
            self._places, self._column = self._copied(self._places)

    def _copied(self, places: Ints) -> tuple[Ints, GrownColumn]:
        """The values at some places, and where they are now."""
        used = np.flatnonzero(places)
        column = GrownColumn(_nothing(self.type))
        if len(used):
            column.append(self._column.take(places[used]))
        now = np.zeros(len(places), np.int64)
        now[used] = 1 + np.arange(len(used))
        return now, column

    def comparable(self, codes: Codes) -> npt.NDArray[Any]:
        return plain(self._column.take(self._places[codes]), self.type)

    def column(self, codes: Codes, present: Mask) -> pa.Array:  # noqa: ARG002
        return self._column.take(self._places[codes])

    def take(self, codes: Codes) -> KeptValues:
        return _Others(self.type, *self._copied(self._places[codes]))

    def spread(self, codes: Codes, size: int) -> KeptValues:
        places, column = self._copied(self._places)
        return _Others(self.type, spread(places, codes, size), column)


def _nothing(sql_type: Type) -> pa.Array:
    return pa.nulls(1, sql_type.arrow)


# min, max, first and last: the best value per group by some order.


class Best:
    """Best value of each group, its position, and whether there is one."""

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
    """Mask of the values of `new` that are better than those of `old`, pairwise."""
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


# max_by and min_by: the value of the row with the best key of each group.
#
# Among equal keys the value itself decides, so that arrival makes no difference.


class BestBy:
    """Best key of each group, the value of its row, and whether the group has one."""

    def __init__(self, keys: npt.NDArray[Any], values: KeptValues, present: Mask) -> None:
        self.keys = keys
        self.values = values
        self.present = present


class ExtremeBy(Aggregate[BestBy]):
    """max_by and min_by: the value at the largest or smallest key."""

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
        """Choose one row of each group: among several with the best key, that with the best value.
        Values are compared for those only."""
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
