"""Pairs of tuples, from what was found in sorted runs: as many at a time as memory has room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.operators.batch import Signs
from penstock.operators.joins.partners.gathering import gathered_columns
from penstock.operators.joins.partners.sorted_run import SortedRun
from penstock.operators.joins.partners.tuples import joined_if_any, joined_signs

AT_ONCE = 1 << 16  # pairs


@dataclass(frozen=True, slots=True)
class Found:
    """Partners in one run: of which rows, where in the run's order they begin, and how many."""

    run: SortedRun
    of: Ints
    begins: Ints
    counts: Ints
    size: int  # pairs

    def pieces(self, most: int) -> Iterator[tuple[Ints, Ints]]:
        """For pairs: the row that came, and that of its partner in the run."""
        total = self.size
        if total <= most:
            yield self._spread(self.of, self.begins, self.counts, total)
            return
        ends = np.cumsum(self.counts)
        for start in range(0, total, most):
            stop = min(start + most, total)
            first = int(np.searchsorted(ends, start, side="right"))
            last = int(np.searchsorted(ends, stop, side="left")) + 1
            counts = self.counts[first:last].copy()
            begins = self.begins[first:last].copy()
            skipped = start - int(ends[first] - counts[0])
            begins[0] += skipped
            counts[-1] -= int(ends[last - 1]) - stop
            counts[0] -= skipped
            yield self._spread(self.of[first:last], begins, counts, stop - start)

    def _spread(self, of: Ints, begins: Ints, counts: Ints, total: int) -> tuple[Ints, Ints]:
        if total == len(of):  # each has one
            return of, self.run.order[begins]
        return np.repeat(of, counts), self.run.order[spread(begins, counts, total)]


def spread(begins: Ints, counts: Ints, total: int) -> Ints:
    """Every number of some spans.

    >>> spread(np.array([7, 3]), np.array([2, 1]), 3)
    array([7, 8, 3])
    """
    before = np.cumsum(counts) - counts
    return np.repeat(begins - before, counts) + np.arange(total)


class Arrived(Protocol):
    """Tuples that came: rows, and beside them signs and lineage, if pairs may be taken back."""

    @property
    def rows(self) -> pa.RecordBatch: ...

    @property
    def signs(self) -> Signs | None: ...

    @property
    def lineage(self) -> Ints | None: ...


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows that came with rows that were kept: which of the former, and for every run which rows of
    it, one after the other."""

    came: Arrived
    of: Ints
    kept: Sequence[tuple[SortedRun, Ints]]

    def __len__(self) -> int:
        return len(self.of)

    def columns(self, came: bool, which: Sequence[int] | None = None) -> list[pa.Array]:
        """The columns of those that came, or of those that were kept: some, or all."""
        if came:
            return gathered_columns([(self.came.rows, self.of)], which)
        return gathered_columns([(run.rows, rows) for run, rows in self.kept], which)

    def filter(self, holds: Mask) -> Pairs:
        if holds.all():
            return self
        kept, at = [], 0
        for run, rows in self.kept:
            own = rows[holds[at : at + len(rows)]]
            at += len(rows)
            if len(own):
                kept.append((run, own))
        return replace(self, of=self.of[holds], kept=kept)

    def signs(self) -> Signs | None:
        """The sign of a pair is the product of the signs of its tuples."""
        came = None if self.came.signs is None else self.came.signs[self.of]
        sides = [(run.signs, rows) for run, rows in self.kept]
        kept = joined_signs([(None if s is None else s[rows], len(rows)) for s, rows in sides])
        return came if kept is None else kept if came is None else came * kept

    def lineage(self, port: int) -> Ints | None:
        """A pair is made of all that its tuples are made of, those of the left one first; None if
        none is ever taken back.  `port` is that of the tuples that came."""
        kept = joined_if_any(
            [None if run.lineage is None else run.lineage[rows] for run, rows in self.kept]
        )
        if kept is None or self.came.lineage is None:
            return None
        came = self.came.lineage[self.of]
        return np.hstack([came, kept] if port == 0 else [kept, came])


def pairs_of(came: Arrived, found: Sequence[Found], most: int = AT_ONCE) -> Iterator[Pairs]:
    """What was found, in pieces."""
    for pieces in pieces_of(found, most):
        of = [each for _, each, _ in pieces]
        kept = [(run, rows) for run, _, rows in pieces]
        yield Pairs(came, of[0] if len(of) == 1 else np.concatenate(of), kept)


def pieces_of(
    found: Sequence[Found], most: int = AT_ONCE
) -> Iterator[list[tuple[SortedRun, Ints, Ints]]]:
    """Runs, each with the rows that came and those of their partners in it; so many at a time."""
    waiting: list[tuple[SortedRun, Ints, Ints]] = []
    size = 0
    for each in found:
        for of, rows in each.pieces(most):
            if size and size + len(of) > most:
                yield waiting
                waiting, size = [], 0
            waiting.append((each.run, of, rows))
            size += len(of)
    if waiting:
        yield waiting
