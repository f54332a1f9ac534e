"""Median, quantiles, mode, top_k, heavy_hitters and all that is DISTINCT: exactly, from counts."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Floats, Ints
from penstock.model.plain_values import to_python
from penstock.model.stable_order import stable_order
from penstock.model.texts import frequencies_json
from penstock.model.types import Type
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.aggregates.frequencies.counted import OfFrequencies
from penstock.operators.aggregates.frequencies.frequencies import Frequencies
from penstock.operators.aggregates.sortable import from_sortable, to_doubles

_SMALL, _HUGE = 2.0**-1000, 2.0**1000
_LARGE = 2**31  # beyond which products of counts and shares are left to Python's integers


class CountDistinct(OfFrequencies):
    """How many different values; over nothing 0, or NULL for approx_count_distinct."""

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
        """Where the quantile of so many rows is: behind which row, how many parts of the way to the
        next (a part is one divided by the share's denominator)."""
        wide = max(self.share.denominator, int(rows.max(initial=0))) >= _LARGE
        exact = self.share.numerator * ((rows - 1).astype(object) if wide else rows - 1)
        low, part = exact // self.share.denominator, exact % self.share.denominator
        return low.astype(np.int64), part.astype(np.int64)


def as_written(share: float) -> Fraction:
    """A tenth by 0.1, though no double is exactly that."""
    return Fraction(repr(share))


def between(lower: Floats, upper: Floats, part: Ints, parts: int) -> Floats:
    """So many of the parts of the way from lower to upper."""
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
        """How many of the most frequent values of each group are asked for."""
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
