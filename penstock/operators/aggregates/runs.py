"""Holistic aggregates: those that need the values themselves, kept as runs of columns.

When a result is asked for, values become ranks, (group, rank) pairs are counted, and everything
else is arithmetic on those counts.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.functions.python_aggregates import run_python_aggregate
from penstock.model.texts import frequencies_json
from penstock.model.types import Type, to_arrow, to_python
from penstock.operators.aggregates.aggregate import Aggregate
from penstock.operators.exact_sums import Ints
from penstock.operators.scatter import Codes


class Runs:
    """Rows as they were folded: groups, arguments, positions."""

    def __init__(self) -> None:
        self.rows: list[tuple[Codes, list[pa.Array], Ints]] = []

    def gather(self, codes: Codes) -> tuple[Codes, list[pa.Array], Ints]:
        """All rows of some groups, the groups numbered by their place in `codes`."""
        if not self.rows:
            return np.zeros(0, np.int64), [], np.zeros(0, np.int64)
        groups = np.concatenate([row[0] for row in self.rows])
        columns = [
            pa.concat_arrays([row[1][i] for row in self.rows]) for i in range(len(self.rows[0][1]))
        ]
        positions = np.concatenate([row[2] for row in self.rows])
        size = max(int(groups.max(initial=-1)), int(codes.max(initial=-1))) + 1
        place = np.full(size, -1, np.int64)
        place[codes] = np.arange(len(codes))
        wanted = place[groups] >= 0
        if not wanted.all():
            mask = pa.array(wanted)
            columns = [column.filter(mask) for column in columns]
            groups, positions = groups[wanted], positions[wanted]
        return place[groups], columns, positions


class Holistic(Aggregate[Runs]):
    holistic = True

    def new(self, size: int) -> Runs:  # noqa: ARG002
        return Runs()

    def grow(self, partial: Runs, size: int) -> None:
        pass

    def fold(self, partial: Runs, codes: Codes, arguments: list[pa.Array], positions: Ints) -> None:
        partial.rows.append((codes, arguments, positions))

    def take(self, partial: Runs, codes: Codes) -> Runs:
        taken = Runs()
        rows = partial.gather(codes)
        if len(rows[0]):
            taken.rows.append(rows)
        return taken

    def merge(self, partial: Runs, other: Runs) -> None:
        partial.rows += other.rows


class Frequencies(NamedTuple):
    """The different values of each group with their counts, by group and then by value."""

    groups: Codes
    ranks: Ints  # of the values in `values`
    counts: Ints
    values: pa.Array  # each different value once, ascending

    def starts(self, size: int) -> Ints:
        """Where the values of each group begin; one more entry says where the last ones end."""
        return np.searchsorted(self.groups, np.arange(size + 1))


def frequencies(groups: Codes, column: pa.Array) -> Frequencies:
    """NaNs are one value, the largest number; −0.0 is 0.0."""
    if pa.types.is_floating(column.type):
        column = pc.add(column, 0.0)
    encoded = column.dictionary_encode()
    order = np.asarray(pc.array_sort_indices(encoded.dictionary)).astype(np.int64)
    rank_of = np.empty(len(order), np.int64)
    rank_of[order] = np.arange(len(order))
    width = max(1, len(order))
    pairs = groups * width + rank_of[np.asarray(encoded.indices)]
    different, counts = np.unique(pairs, return_counts=True)
    values = encoded.dictionary.take(pa.array(order))
    return Frequencies(different // width, different % width, counts.astype(np.int64), values)


class OfFrequencies(Holistic):
    """Aggregates that are a function of how often each value occurs."""

    def finish(self, partial: Runs, codes: Codes) -> pa.Array:
        groups, columns, _ = partial.gather(codes)
        if not columns:
            return self.nothing(len(codes))
        return self.compute(frequencies(groups, columns[0]), len(codes))

    @abstractmethod
    def nothing(self, size: int) -> pa.Array: ...

    @abstractmethod
    def compute(self, found: Frequencies, size: int) -> pa.Array: ...


class CountDistinct(OfFrequencies):
    """How many different values; over nothing 0, or NULL for approx_count_distinct."""

    def __init__(self, null_over_nothing: bool = False) -> None:
        self.null_over_nothing = null_over_nothing

    def nothing(self, size: int) -> pa.Array:
        return self._counts(np.zeros(size, np.int64))

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        return self._counts(np.bincount(found.groups, minlength=size))

    def _counts(self, counts: Ints) -> pa.Array:
        return pa.array(counts, mask=(counts == 0) if self.null_over_nothing else None)


class Mode(OfFrequencies):
    """The most frequent value; of equally frequent ones, the least."""

    def __init__(self, argument: Type) -> None:
        self.argument = argument

    def nothing(self, size: int) -> pa.Array:
        return pa.nulls(size, self.argument.arrow)

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        order = np.lexsort((found.ranks, -found.counts, found.groups))
        starts = found.starts(size)
        present = starts[:-1] < starts[1:]
        chosen = np.zeros(size, np.int64)
        chosen[present] = found.ranks[order][starts[:-1][present]]
        return found.values.take(pa.array(chosen, mask=~present))


class Quantile(OfFrequencies):
    """Between the two nearest values, in proportion to the distance, rounded once."""

    def __init__(self, share: float) -> None:
        self.share = Fraction(repr(share))  # as it was written: 0.1 is a tenth

    def nothing(self, size: int) -> pa.Array:
        return pa.nulls(size, pa.float64())

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        values = np.asarray(found.values, dtype=np.float64)
        starts = found.starts(size)
        upto = np.concatenate([[0], np.cumsum(found.counts)])
        results: list[float | None] = []
        for begin, end in pairwise(starts):
            rows = int(upto[end] - upto[begin])
            if rows == 0:
                results.append(None)
                continue
            place = self.share * (rows - 1)
            low = place.numerator // place.denominator
            at = int(upto[begin]) + low
            first = values[found.ranks[np.searchsorted(upto, at, side="right") - 1]]
            part = place - low
            if part == 0:
                results.append(float(first))
                continue
            second = values[found.ranks[np.searchsorted(upto, at + 1, side="right") - 1]]
            results.append(_between(float(first), float(second), part))
        return pa.array(results, pa.float64())


def _between(low: float, high: float, part: Fraction) -> float:
    if low == high:
        return low
    if not (np.isfinite(low) and np.isfinite(high)):
        return low + (high - low) * float(part)
    exact = Fraction(low) + (Fraction(high) - Fraction(low)) * part
    return float(exact)


class Frequent(OfFrequencies):
    """top_k and heavy_hitters: frequent values with their counts, as JSON."""

    def __init__(self, argument: Type, k: int | None = None, share: float | None = None) -> None:
        self.argument = argument
        self.k = k
        self.share = None if share is None else Fraction(repr(share))

    def nothing(self, size: int) -> pa.Array:
        return pa.nulls(size, pa.string())

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        order = np.lexsort((found.ranks, -found.counts, found.groups))
        values = to_python(found.values, self.argument)
        ranks, counts = found.ranks[order].tolist(), found.counts[order].tolist()
        starts = found.starts(size)
        results: list[str | None] = []
        for begin, end in pairwise(starts):
            if begin == end:
                results.append(None)
                continue
            chosen = [(values[ranks[i]], counts[i]) for i in range(begin, end)]
            if self.share is not None:
                least = self.share * sum(counts[begin:end])
                chosen = [pair for pair in chosen if pair[1] >= least]
            results.append(frequencies_json(chosen[: self.k], self.argument))
        return pa.array(results, pa.string())


class Distinct(Holistic):
    """Another aggregate over the different values of each group."""

    def __init__(self, inner: Aggregate[Any]) -> None:
        self.inner = inner

    def finish(self, partial: Runs, codes: Codes) -> pa.Array:
        groups, columns, positions = partial.gather(codes)
        inner = self.inner.new(len(codes))
        self.inner.grow(inner, len(codes))
        if columns:
            kept = _first_of_each(groups, columns)
            chosen = [column.take(pa.array(kept)) for column in columns]
            self.inner.fold(inner, groups[kept], chosen, positions[kept])
        return self.inner.finish(inner, np.arange(len(codes)))


def _first_of_each(groups: Codes, columns: list[pa.Array]) -> Ints:
    """The first row of every different (group, values)."""
    combined = groups
    for column in columns:
        if pa.types.is_floating(column.type):
            column = pc.add(column, 0.0)
        encoded = column.dictionary_encode()
        combined = combined * max(1, len(encoded.dictionary)) + np.asarray(encoded.indices)
        _, combined = np.unique(combined, return_inverse=True)
    _, first = np.unique(combined, return_index=True)
    return np.sort(first).astype(np.int64)


class OfPython(Holistic):
    """An aggregate written by the user: its states are Python objects, one per group."""

    def __init__(self, implementation: Any, result: Type, name: str) -> None:
        self.implementation = implementation
        self.result = result
        self.name = name

    def finish(self, partial: Runs, codes: Codes) -> pa.Array:
        groups, columns, _ = partial.gather(codes)
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(len(codes) + 1))
        results = []
        for begin, end in pairwise(starts):
            rows = pa.array(order[begin:end])
            taken = [column.take(rows) for column in columns]
            results.append(
                run_python_aggregate(
                    self.name, self.implementation, taken, int(end - begin), self.result
                )
            )
        return to_arrow(results, self.result)
