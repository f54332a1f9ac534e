"""What a source promises group by group, computed on whole columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import Bound
from penstock.model.schema import Schema
from penstock.operators.groups.bounds import NONE, GroupBounds, HighestBounds
from penstock.plan.expressions import Column
from penstock.promises.by_sub_source import BySubSource
from penstock.state.chunks import ChunkStore


class GroupPromises:
    """The bounds of groups while a stream is read.  A tuple that is not below the highest of them
    keeps every promise, so that only the others are looked up."""

    def __init__(
        self, group: tuple[Column, ...], schema: Schema, attribute: str, names: list[str]
    ) -> None:
        """`attribute` and `names` are what the plan calls the progressing column, and all."""
        self._columns = [compile_expression(column, schema) for column in group]
        self._names = tuple(names[column.position(schema)] for column in group)
        self._attribute = attribute
        self._highest = HighestBounds([column.type for column in group])
        self._risen: list[Codes] = []  # groups whose bounds have not been told yet

    def before(
        self, batch: pa.RecordBatch, ticks: Ints, punctuates: Mask, said: Ints
    ) -> Ints | None:
        """The bound of its group before each row, NONE if there was none; None if no tuple is below
        a bound.  `ticks` of punctuations are lower than all bounds; `said` is what those promise,
        in their order."""
        highest = max(self._highest.highest, int(said.max(initial=NONE)))
        rows = np.flatnonzero(ticks < highest)
        if not len(rows):
            return None
        some = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
        codes = self._highest.codes([column(some) for column in self._columns], len(rows))
        started = self._highest.of(codes)
        if len(said):
            promising = punctuates[rows]
            after = np.full(len(rows), NONE)
            after[promising] = said
            found = running_highest(codes, started, after)
            self._raise(codes[promising], said)
        else:
            found = started
        before = np.full(batch.num_rows, NONE)
        before[rows] = found
        return before if ((ticks < before) & ~punctuates).any() else None

    def of(self, keys: list[pa.Array]) -> Ints:
        """The bounds of some groups, NONE of those that have none."""
        if self._highest.highest == NONE:
            return np.full(len(keys[0]), NONE)
        return self._highest.of(self._highest.codes(keys, len(keys[0])))

    def raise_to(self, keys: list[pa.Array], said: Ints) -> None:
        """What somebody else has read."""
        self._raise(self._highest.codes(keys, len(said)), said)

    def _raise(self, codes: Codes, said: Ints) -> None:
        groups = np.unique(codes)
        before = self._highest.of(groups)
        self._highest.raise_to(codes, said)
        self._risen.append(groups[self._highest.of(groups) > before])

    def told(self, low: Bound) -> GroupBounds | None:
        """The bounds that have risen since the last time, as far as they are above the one that
        holds for all; what is not is of no use any more."""
        told = None
        if self._risen:
            codes = np.unique(np.concatenate(self._risen))
            codes = codes[self._highest.of(codes) > low]
            self._risen = []
            if len(codes):
                bounds = {self._attribute: self._highest.of(codes)}
                told = GroupBounds(self._names, self._highest.keys(codes), bounds)
        self._highest.forget(low)
        return told

    def save(self, store: ChunkStore) -> None:
        self._highest.save(store)

    def load(self, store: ChunkStore) -> None:
        self._highest.load(store)


def running_highest(codes: Codes, started: Ints, after: Ints) -> Ints:
    """For each row, the highest of what its group started with and of what the rows of the group
    before it say.

    >>> codes, started = np.array([0, 1, 0, 0, 1]), np.array([5, 2, 5, 5, 2])
    >>> running_highest(codes, started, np.array([7, 9, 1, 8, 3]))
    array([5, 2, 7, 7, 9])
    """
    rows = BySubSource.of(codes)
    before, _ = rows.highest_before(rows.sorted(started)[rows.begins], rows.sorted(after))
    return rows.restored(before)
