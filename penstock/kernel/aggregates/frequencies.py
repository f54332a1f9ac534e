"""Frequencies of values per group, and the aggregates computed from them: counts of distinct
values, mode, quantiles, frequent values, and DISTINCT ones.  Counts are kept in sorted runs that
are merged, not sorted again; runs are never changed, so that panes and windows can share them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.aggregates.aggregate import (
    Aggregate,
    ByGroup,
    Sortable,
    from_sortable,
    places,
    to_doubles,
    to_sortable,
)
from penstock.kernel.state import Tree
from penstock.model.arrays import Codes, Floats, Ints, stable_order
from penstock.model.types import Type
from penstock.model.values import frequencies_json, to_python


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Different values of each group with their counts, by group and then by value.  Counts are
    negative where more has been subtracted than was added."""

    groups: Codes
    ranks: Ints  # of the values in `values`
    counts: Ints
    values: Sortable  # each different value once, ascending; some may be in no group any more

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def nbytes(self) -> int:
        arrays = (self.groups, self.ranks, self.counts, self.values)
        return sum(array.nbytes for array in arrays)

    def starts(self, size: int) -> Ints:
        """Place at which the values of each group begin; one more entry for the end of the last
        ones."""
        return np.searchsorted(self.groups, np.arange(size + 1))

    def negative(self) -> Frequencies:
        return replace(self, counts=-self.counts)

    def where(self, kept: Ints) -> Frequencies:
        """Choose entries; they stay in order."""
        chosen = Frequencies(self.groups[kept], self.ranks[kept], self.counts[kept], self.values)
        return chosen._without_unused() if len(chosen) < len(self.values) else chosen

    def take(self, codes: Codes) -> Frequencies:
        """Entries of some groups, which then are numbered by their place in `codes`."""
        place = places(self.groups, codes)
        if len(place) and place.min() < 0:
            kept = np.flatnonzero(place >= 0)
            return self.where(kept).renumbered(place[kept])
        return self.renumbered(place)

    def renumbered(self, groups: Codes) -> Frequencies:
        """Replace the groups of the entries by others, one for each."""
        if len(groups) and np.diff(groups).min(initial=0) < 0:
            order = stable_order(groups)
            return Frequencies(groups[order], self.ranks[order], self.counts[order], self.values)
        return replace(self, groups=groups)

    def _without_unused(self) -> Frequencies:
        used = np.zeros(len(self.values), np.bool_)
        used[self.ranks] = True
        ranks = (np.cumsum(used) - 1)[self.ranks]
        return Frequencies(self.groups, ranks, self.counts, self.values[used])


def count(groups: Codes, column: pa.Array, sql_type: Type) -> Frequencies:
    """Count rows in any order."""
    encoded = column.dictionary_encode()
    values, rank_of = np.unique(to_sortable(encoded.dictionary, sql_type), return_inverse=True)
    width = max(1, len(values))
    pairs = groups * width + rank_of[np.asarray(encoded.indices)]
    different, counts = np.unique(pairs, return_counts=True)
    return Frequencies(different // width, different % width, counts.astype(np.int64), values)


def merge(one: Frequencies, other: Frequencies) -> Frequencies:
    """The sums of the counts; entries that come to nothing are left out.  It costs one pass over
    the longer one, and a search in it for each entry of the shorter one."""
    base, added = (one, other) if len(one) >= len(other) else (other, one)
    if not len(added):
        return base
    values = _Union(base.values, added.values)
    merged_values = values.insert(base.values, added.values)
    base_ranks, added_ranks = values.base(base.ranks), values.places[added.ranks]
    width = len(merged_values)
    keys = _Union(base.groups * width + base_ranks, added.groups * width + added_ranks)
    counts = keys.insert(base.counts, np.zeros(len(added), np.int64))
    counts = counts.copy() if counts is base.counts else counts
    counts[keys.places] += added.counts
    merged = Frequencies(
        keys.insert(base.groups, added.groups),
        keys.insert(base_ranks, added_ranks),
        counts,
        merged_values,
    )
    if counts.all() and len(merged_values) <= len(merged):
        return merged
    return merged.where(np.flatnonzero(counts))


class _Union:
    """Two sorted arrays without duplicates as one: the places at which the entries of each
    stand."""

    def __init__(self, base: Sortable, added: Sortable) -> None:
        at = np.searchsorted(base, added)
        found = np.zeros(len(added), np.bool_)
        inside = at < len(base)
        found[inside] = base[at[inside]] == added[inside]
        self._new = ~found
        self._at = at[self._new]
        self._length = len(base)
        self.places: Ints = at + np.cumsum(self._new) - self._new

    def insert(self, base: Sortable, added: Sortable) -> Sortable:
        """Values that go with the entries, as one array, by the base where both have it."""
        if not len(self._at):
            return base
        return np.insert(base, self._at, added[self._new])

    def base(self, indices: Ints) -> Ints:
        """Places of entries of the base in the union."""
        if not len(self._at):
            return indices
        before = np.bincount(self._at, minlength=self._length)[: self._length]
        moved: Ints = indices + np.cumsum(before)[indices]
        return moved


# Sorted, counted runs per slice, and the aggregates that are a function of them.
#
# Rows are kept uncounted until their slice is used for the first time; then they become one run of
# (group, value, count), and everything after that merges counts.

_MANY_ROWS = 1 << 16  # to be kept uncounted


class Counted(ByGroup):
    """Frequencies as a few runs, to which a partial result can be added cheaply.

    Runs, the longest first and each more than twice as long as the next, so that there are few
    of them, and a short one can be added without a pass over a long one.
    """

    def __init__(self, argument: Type) -> None:
        self.argument = argument
        self.runs: list[Frequencies] = []
        self.rows: list[tuple[Codes, pa.Array]] = []  # not counted yet
        self._waiting = 0

    @property
    def entries(self) -> int:
        """Number of rows and counts that are kept."""
        return self._waiting + sum(map(len, self.runs))

    def fold(self, codes: Codes, column: pa.Array) -> None:
        self.rows.append((codes, column))
        self._waiting += len(codes)
        if self._waiting > _MANY_ROWS:
            self.settle()

    def settle(self) -> None:
        """Count the rows that came."""
        if self.rows:
            codes = np.concatenate([codes for codes, _ in self.rows])
            column = pa.concat_arrays([column for _, column in self.rows])
            self.rows, self._waiting = [], 0
            self.add(count(codes, column, self.argument))

    def add(self, run: Frequencies) -> None:
        at = len(self.runs)
        while at and len(self.runs[at - 1]) < len(run):
            at -= 1
        self.runs.insert(at, run)
        for i in range(len(self.runs) - 1, 0, -1):
            if len(self.runs[i - 1]) <= 2 * len(self.runs[i]):
                self.runs[i - 1 : i + 1] = [merge(self.runs[i - 1], self.runs[i])]

    def merge(self, other: Counted, sign: int = 1) -> None:
        other.settle()
        for run in other.runs:
            self.add(run if sign > 0 else run.negative())

    def one(self) -> Frequencies | None:
        """Merge all runs into one; None if there is none."""
        self.settle()
        while len(self.runs) > 1:
            self.runs[-2:] = [merge(self.runs[-2], self.runs[-1])]
        return self.runs[0] if self.runs else None

    def of(self, *runs: Frequencies) -> Counted:
        other = Counted(self.argument)
        other.runs = [run for run in runs if len(run)]
        return other

    def take(self, codes: Codes) -> Counted:
        run = self.one()
        return self.of() if run is None else self.of(run.take(codes))

    def spread(self, codes: Codes) -> Counted:
        run = self.one()
        return self.of() if run is None else self.of(run.renumbered(codes[run.groups]))

    @property
    def nbytes(self) -> int:
        waiting = sum(codes.nbytes + column.nbytes for codes, column in self.rows)
        return int(waiting) + sum(run.nbytes for run in self.runs)

    def save(self) -> Tree:
        run = self.one()
        if run is None:
            return None
        values = from_sortable(run.values, self.argument)
        return {"groups": run.groups, "ranks": run.ranks, "counts": run.counts, "values": values}

    def load(self, saved: Tree) -> Counted:
        if saved is None:
            return self.of()
        values = to_sortable(saved["values"], self.argument)
        return self.of(Frequencies(saved["groups"], saved["ranks"], saved["counts"], values))


class OfFrequencies(Aggregate[Counted]):
    """Aggregates that are a function of how often each value occurs."""

    differential = True
    holistic = True

    def __init__(self, argument: Type) -> None:
        self.argument = argument

    def new(self, size: int) -> Counted:  # noqa: ARG002
        return Counted(self.argument)

    def grow(self, partial: Counted, size: int) -> None:
        pass

    def fold(self, partial: Counted, codes: Codes, arguments: list[pa.Array], _: Ints) -> None:
        partial.fold(codes, arguments[0])

    def merge(self, partial: Counted, other: Counted) -> None:
        partial.merge(other)

    def subtract(self, partial: Counted, other: Counted) -> None:
        partial.merge(other, -1)

    def take(self, partial: Counted, codes: Codes) -> Counted:
        return partial.take(codes)

    def spread(self, partial: Counted, codes: Codes, size: int) -> Counted:  # noqa: ARG002
        return partial.spread(codes)

    def save(self, partial: Counted) -> Tree:
        return partial.save()

    def load(self, saved: Tree) -> Counted:
        return Counted(self.argument).load(saved)

    def finish(self, partial: Counted, codes: Codes) -> pa.Array:
        run = partial.one()
        found = count_nothing(self.argument) if run is None else run.take(codes)
        return self.compute(found, len(codes))

    @abstractmethod
    def compute(self, found: Frequencies, size: int) -> pa.Array:
        """The results of the groups 0, 1, … up to before `size`."""


def count_nothing(argument: Type) -> Frequencies:
    return count(np.zeros(0, np.int64), pa.array([], argument.arrow), argument)


# Median, quantiles, mode, top_k, heavy_hitters and all that is DISTINCT: exactly, from counts.

_SMALL, _HUGE = 2.0**-1000, 2.0**1000
_LARGE = 2**31  # beyond which products of counts and shares are left to Python's integers


class CountDistinct(OfFrequencies):
    """Number of different values; over nothing 0, or NULL for approx_count_distinct."""

    def __init__(self, argument: Type, null_over_nothing: bool = False) -> None:
        super().__init__(argument)
        self.null_over_nothing = null_over_nothing

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        counts = np.bincount(found.groups, minlength=size).astype(np.int64)
        return pa.array(counts, mask=(counts == 0) if self.null_over_nothing else None)


class Mode(OfFrequencies):
    """The most frequent value; of equally frequent ones, the least."""

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        starts = found.starts(size)
        present = starts[:-1] < starts[1:]
        begins = starts[:-1][present]
        most = np.maximum.reduceat(found.counts, begins) if len(begins) else begins
        frequent = np.flatnonzero(found.counts == np.repeat(most, np.diff(starts)[present]))
        chosen = found.ranks[frequent[np.searchsorted(frequent, begins)]]
        column = from_sortable(found.values[chosen], self.argument)
        return column.take(pa.array(np.cumsum(present) - 1, mask=~present))


class QuantileOfThese(OfFrequencies):
    """The least value up to which a share of all values are."""

    def __init__(self, argument: Type, share: float) -> None:
        super().__init__(argument)
        self.share = as_written(share)

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        starts = found.starts(size)
        upto = np.concatenate([[0], np.cumsum(found.counts)])
        before, rows = upto[starts[:-1]], np.diff(upto[starts])
        present = rows > 0
        # the least is one of them even if none is asked for
        wanted = np.maximum(enough(self.share, rows[present]), 1)
        at = np.searchsorted(upto, before[present] + wanted) - 1
        column = from_sortable(found.values[found.ranks[at]], self.argument)
        return column.take(pa.array(np.cumsum(present) - 1, mask=~present))


class Quantile(OfFrequencies):
    """Between the two nearest values, in proportion to the distance, rounded once."""

    def __init__(self, argument: Type, share: float) -> None:
        super().__init__(argument)
        self.share = as_written(share)

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        starts = found.starts(size)
        upto = np.concatenate([[0], np.cumsum(found.counts)])
        rows = upto[starts[1:]] - upto[starts[:-1]]
        present = rows > 0
        low, part = self.places(rows[present])
        first = upto[starts[:-1][present]] + low
        at = np.searchsorted(upto, [first, first + (part > 0)], side="right") - 1
        lower, upper = to_doubles(found.values[found.ranks[at]])
        results = np.zeros(size)
        results[present] = between(lower, upper, part, self.share.denominator)
        return pa.array(results, mask=~present)

    def places(self, rows: Ints) -> tuple[Ints, Ints]:
        """Position of the quantile of so many rows: the row before it, and the number of parts of
        the way to the next row (a part is one divided by the share's denominator)."""
        wide = max(self.share.denominator, int(rows.max(initial=0))) >= _LARGE
        exact = self.share.numerator * ((rows - 1).astype(object) if wide else rows - 1)
        low, part = exact // self.share.denominator, exact % self.share.denominator
        return low.astype(np.int64), part.astype(np.int64)


def as_written(share: float) -> Fraction:
    """A tenth by 0.1, though no double is exactly that."""
    return Fraction(repr(share))


def between(lower: Floats, upper: Floats, part: Ints, parts: int) -> Floats:
    """Interpolate: so many of the parts of the way from lower to upper."""
    with np.errstate(all="ignore"):  # what goes wrong is not used
        results = (lower + upper) / 2
    # half-way: one rounding, by the addition, unless the sum is out of the range of doubles
    size = np.abs(results)
    done = (2 * part == parts) & (size > _SMALL) & (size < _HUGE)
    same = (part == 0) | (lower == upper)
    results[same] = lower[same]
    for i in np.flatnonzero(~done & ~same):
        results[i] = _between(float(lower[i]), float(upper[i]), Fraction(int(part[i]), parts))
    return results


def _between(low: float, high: float, part: Fraction) -> float:
    if not (np.isfinite(low) and np.isfinite(high)):
        return low + (high - low) * float(part)
    (a, b), (c, d) = low.as_integer_ratio(), high.as_integer_ratio()
    wide = max(b, d)  # both are powers of two
    start, end = a * (wide // b), c * (wide // d)
    # integers divide with one rounding, as fractions do, and several times faster
    exact = start * part.denominator + (end - start) * part.numerator
    return exact / (wide * part.denominator)


class Frequent(OfFrequencies):
    """top_k and heavy_hitters: frequent values with their counts, as JSON."""

    def __init__(self, argument: Type, k: int | None = None, share: float | None = None) -> None:
        super().__init__(argument)
        self.k = k
        self.share = None if share is None else as_written(share)

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        highest = int(found.counts.max(initial=0))
        # stable, so that of equally frequent values the least comes first
        order = stable_order(found.groups * (highest + 1) + highest - found.counts)
        counts, starts = found.counts[order], found.starts(size)
        ends = starts[:-1] + self._how_many(counts, starts)
        chosen = [order[begin:end] for begin, end in zip(starts[:-1], ends, strict=True)]
        entries = np.concatenate([np.zeros(0, np.int64), *chosen])
        values = from_sortable(found.values[found.ranks[entries]], self.argument)
        pairs = list(
            zip(to_python(values, self.argument), found.counts[entries].tolist(), strict=True)
        )
        upto = np.cumsum([0, *map(len, chosen)]).tolist()
        return pa.array(
            [
                frequencies_json(pairs[begin:end], self.argument) if present else None
                for (begin, end), present in zip(pairwise(upto), np.diff(starts) > 0, strict=True)
            ],
            pa.string(),
        )

    def _how_many(self, counts: Ints, starts: Ints) -> Ints:
        """Number of the most frequent values of each group to report."""
        sizes = np.diff(starts)
        if self.share is None:
            assert self.k is not None
            return np.minimum(sizes, self.k)
        upto = np.concatenate([[0], np.cumsum(counts)])
        least = enough(self.share, np.diff(upto[starts]))
        frequent = counts >= np.repeat(least, sizes)
        return np.diff(np.concatenate([[0], np.cumsum(frequent)])[starts])


def enough(share: Fraction, rows: Ints) -> Ints:
    """The least counts that make up a share of so many rows."""
    exact = -(-share.numerator * rows.astype(object) // share.denominator)
    return exact.astype(np.int64)


class DistinctValues(OfFrequencies):
    """Another aggregate, of one argument, over the different values of each group."""

    def __init__(self, argument: Type, inner: Aggregate[Any]) -> None:
        super().__init__(argument)
        self.inner = inner

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        inner = self.inner.new(max(1, size))
        if len(found):
            column = from_sortable(found.values, self.argument).take(pa.array(found.ranks))
            nowhere = np.zeros(len(found), np.int64)
            self.inner.fold(inner, found.groups, [column], nowhere)
        return self.inner.finish(inner, np.arange(size))
