"""How often each value occurs in each group: sorted runs that are merged, not sorted again.

Runs are never changed, so that panes and windows can share them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.stable_order import stable_order
from penstock.model.types import Type
from penstock.operators.aggregates.by_group import places
from penstock.operators.aggregates.sortable import Sortable, to_sortable


@dataclass(frozen=True, slots=True)
class Frequencies:
    """The different values of each group with their counts, by group and then by value.  Counts
    are negative where more has been taken back than was there."""

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
        """Where the values of each group begin; one more entry says where the last ones end."""
        return np.searchsorted(self.groups, np.arange(size + 1))

    def negative(self) -> Frequencies:
        return replace(self, counts=-self.counts)

    def where(self, kept: Ints) -> Frequencies:
        """Some of the entries, in the same order."""
        chosen = Frequencies(self.groups[kept], self.ranks[kept], self.counts[kept], self.values)
        return chosen._without_unused() if len(chosen) < len(self.values) else chosen

    def take(self, codes: Codes) -> Frequencies:
        """What there is of some groups, which then are numbered by their place in `codes`."""
        place = places(self.groups, codes)
        if len(place) and place.min() < 0:
            kept = np.flatnonzero(place >= 0)
            return self.where(kept).renumbered(place[kept])
        return self.renumbered(place)

    def renumbered(self, groups: Codes) -> Frequencies:
        """The same entries under other groups, no two of which are the same."""
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
    """Of rows as they come."""
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
    """Two sorted arrays without duplicates as one: where the entries of each come to stand."""

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
        """What goes with the entries, as one array, by the base where both have it."""
        if not len(self._at):
            return base
        return np.insert(base, self._at, added[self._new])

    def base(self, indices: Ints) -> Ints:
        """Where entries of the base come to stand."""
        if not len(self._at):
            return indices
        before = np.bincount(self._at, minlength=self._length)[: self._length]
        moved: Ints = indices + np.cumsum(before)[indices]
        return moved
