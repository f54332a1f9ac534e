"""Aggregates that keep their rows or all values: DISTINCT over several arguments, array_agg,
string_agg and histogram.  They can only be computed when a result is asked for.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.sizes import check_values, sizes_of
from penstock.kernel.aggregates.aggregate import Aggregate, ByGroup, from_sortable, places
from penstock.kernel.aggregates.frequencies import Frequencies, OfFrequencies
from penstock.kernel.grouping.keys import value_ranks
from penstock.kernel.state import Tree
from penstock.model.arrays import Codes, Ints
from penstock.model.types import STRING, Type
from penstock.model.value_limits import check_size
from penstock.model.values import frequencies_json, to_python


class Runs(ByGroup):
    """Rows as they were folded: groups, arguments, positions."""

    def __init__(self, rows: list[tuple[Codes, list[pa.Array], Ints]] | None = None) -> None:
        self.rows = rows or []

    def gather(self, codes: Codes) -> tuple[Codes, list[pa.Array], Ints]:
        """All rows of some groups, the groups numbered by their place in `codes`."""
        groups, columns, positions = self.all()
        place = places(groups, codes)
        wanted = place >= 0
        if not wanted.all():
            mask = pa.array(wanted)
            columns = [column.filter(mask) for column in columns]
            place, positions = place[wanted], positions[wanted]
        return place, columns, positions

    def all(self) -> tuple[Codes, list[pa.Array], Ints]:
        if not self.rows:
            return np.zeros(0, np.int64), [], np.zeros(0, np.int64)
        groups = np.concatenate([row[0] for row in self.rows])
        columns = [
            pa.concat_arrays([row[1][i] for row in self.rows]) for i in range(len(self.rows[0][1]))
        ]
        return groups, columns, np.concatenate([row[2] for row in self.rows])

    def take(self, codes: Codes) -> Runs:
        rows = self.gather(codes)
        return Runs([rows]) if len(rows[0]) else Runs()

    def spread(self, codes: Codes) -> Runs:
        return Runs([(codes[groups], columns, places) for groups, columns, places in self.rows])

    @property
    def nbytes(self) -> int:
        return sum(
            groups.nbytes + sum(column.nbytes for column in columns) + positions.nbytes
            for groups, columns, positions in self.rows
        )

    def save(self) -> Tree:
        return [[groups, columns, positions] for groups, columns, positions in self.rows]

    @staticmethod
    def load(saved: Tree) -> Runs:
        return Runs([(groups, columns, positions) for groups, columns, positions in saved])


class Holistic(Aggregate[Runs]):
    """Base of holistic aggregates that keep their rows, whose partial results are runs of rows."""

    holistic = True

    def new(self, size: int) -> Runs:  # noqa: ARG002
        return Runs()

    def grow(self, partial: Runs, size: int) -> None:
        pass

    def fold(self, partial: Runs, codes: Codes, arguments: list[pa.Array], positions: Ints) -> None:
        partial.rows.append((codes, arguments, positions))

    def merge(self, partial: Runs, other: Runs) -> None:
        partial.rows += other.rows

    def take(self, partial: Runs, codes: Codes) -> Runs:
        return partial.take(codes)

    def spread(self, partial: Runs, codes: Codes, size: int) -> Runs:  # noqa: ARG002
        return partial.spread(codes)

    def save(self, partial: Runs) -> Tree:
        return partial.save()

    def load(self, saved: Tree) -> Runs:
        return Runs.load(saved)


class OverDistinct(Holistic):
    """Another aggregate over the different combinations of arguments of each group."""

    def __init__(self, inner: Aggregate[Any]) -> None:
        self.inner = inner

    def finish(self, partial: Runs, codes: Codes) -> pa.Array:
        groups, columns, positions = partial.gather(codes)
        inner = self.inner.new(max(1, len(codes)))
        if len(groups):
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


# array_agg: the values of a group in an ARRAY, by keys if they are given, by position, by value;
# never in order of arrival.


class Listed(Holistic):
    """`directions` has a letter for every key behind the value: a for ascending, d for the other
    way round."""

    def __init__(self, result: Type, directions: str) -> None:
        self.result = result
        self.directions = directions

    def finish(self, partial: Runs, codes: Codes) -> pa.Array:
        groups, columns, positions = partial.gather(codes)
        item = self.result.item.arrow
        if not len(groups):
            return pa.nulls(len(codes), self.result.arrow)
        value, *keys = columns[: 1 + len(self.directions)]
        if pa.types.is_floating(value.type):
            value = pc.add(value, 0.0)  # there is one zero
        ranks = [
            value_ranks_of(key) * (1 if direction == "a" else -1)
            for key, direction in zip(keys, self.directions, strict=True)
        ]
        order = np.lexsort([value_ranks([value]), positions, *reversed(ranks), groups])
        sizes = np.bincount(groups, minlength=len(codes))
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        items = value.take(pa.array(order)).cast(item)
        lists = check_values(
            pa.ListArray.from_arrays(pa.array(ends), items, type=self.result.arrow)
        )
        return lists if sizes.all() else _without_empty(lists, sizes == 0)


def value_ranks_of(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Numbers in the order of values, the same for equal ones."""
    encoded = column.dictionary_encode()
    ranks = value_ranks([encoded.dictionary])
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = ranks[np.asarray(encoded.indices)]
    return found


def _without_empty(lists: pa.Array, empty: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Array:
    return lists.take(pa.array(np.arange(len(lists)), mask=empty))


# string_agg and histogram: all values of a group, in their order.


class ListedTexts(OfFrequencies):
    """string_agg: the texts from the least to the greatest, with a separator between them."""

    def __init__(self, separator: str) -> None:
        super().__init__(STRING)
        self.separator = separator

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        starts = found.starts(size)
        upto = np.concatenate([[0], np.cumsum(found.counts)])[starts]
        ranks = np.repeat(found.ranks, found.counts)
        texts = from_sortable(found.values, STRING).take(pa.array(ranks))
        lists = pa.LargeListArray.from_arrays(pa.array(upto, pa.int64()), texts.cast(pa.string()))
        lengths = np.concatenate([[0], np.cumsum(sizes_of(texts.cast(pa.string())))])
        counts = np.diff(upto)
        sizes = lengths[upto[1:]] - lengths[upto[:-1]] + counts * len(self.separator.encode())
        check_size(int(sizes.max(initial=0)))
        joined = pc.binary_join(lists, self.separator)
        return pc.if_else(pa.array(np.diff(starts) > 0), joined, pa.scalar(None, pa.string()))


class Histogram(OfFrequencies):
    """histogram: every value with its count, by value, as JSON."""

    def __init__(self, argument: Type) -> None:
        super().__init__(argument)

    def compute(self, found: Frequencies, size: int) -> pa.Array:
        column = from_sortable(found.values, self.argument).take(pa.array(found.ranks))
        pairs = list(zip(to_python(column, self.argument), found.counts.tolist(), strict=True))
        texts = [
            frequencies_json(pairs[begin:end], self.argument) if begin < end else None
            for begin, end in pairwise(found.starts(size).tolist())
        ]
        return check_values(pa.array(texts, pa.string()))
