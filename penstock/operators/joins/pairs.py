"""Pairs of tuples, from what was found in sorted runs: as many at a time as memory has room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.operators.batch import Signs
from penstock.operators.joins.sorted_run import SortedRun
from penstock.operators.joins.tuples import Tuples, signs_of

AT_ONCE = 1 << 16  # pairs


@dataclass(frozen=True, slots=True)
class Found:
    """Partners in one run: of which tuples, where in the run's order they begin, and how many."""

    run: SortedRun
    of: Ints
    begins: Ints
    counts: Ints

    def pieces(self, most: int) -> Iterator[tuple[Ints, Ints]]:
        """For pairs: the tuple, and the row of its partner in the run."""
        ends = np.cumsum(self.counts)
        total = int(ends[-1]) if len(ends) else 0
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
            which, places = spread(begins, counts)
            yield self.of[first:last][which], self.run.order[places]


def spread(begins: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Every number of some spans, and which span it is of.

    >>> spread(np.array([7, 3]), np.array([2, 1]))
    (array([0, 0, 1]), array([7, 8, 3]))
    """
    which = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return which, np.arange(len(which)) + (begins - before)[which]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Tuples that came with tuples that were kept: which of the former, and for every run which
    rows of it, one after the other."""

    came: Tuples
    of: Ints
    kept: Sequence[tuple[SortedRun, Ints]]

    def __len__(self) -> int:
        return len(self.of)

    def columns(self, which: Sequence[int], came: bool) -> list[pa.Array]:
        """Some columns of those that came, or of those that were kept."""
        if came:
            places = pa.array(self.of)
            return [self.came.rows.column(each).take(places) for each in which]
        taken = [(run.tuples.rows, pa.array(rows)) for run, rows in self.kept]
        if len(taken) == 1:
            rows, places = taken[0]
            return [rows.column(each).take(places) for each in which]
        return [
            pa.concat_arrays([rows.column(each).take(places) for rows, places in taken])
            for each in which
        ]

    def filter(self, holds: Mask) -> Pairs:
        if holds.all():
            return self
        kept, at = [], 0
        for run, rows in self.kept:
            own = rows[holds[at : at + len(rows)]]
            at += len(rows)
            if len(own):
                kept.append((run, own))
        return Pairs(self.came, self.of[holds], kept)

    def signs(self) -> Signs | None:
        """The sign of a pair is the product of the signs of its tuples."""
        if self.came.signs is None and all(run.tuples.signs is None for run, _ in self.kept):
            return None
        kept = [signs_of(run.tuples)[rows] for run, rows in self.kept]
        signs: Signs = signs_of(self.came)[self.of] * np.concatenate(kept)
        return signs


def pairs_of(came: Tuples, found: Sequence[Found], most: int = AT_ONCE) -> Iterator[Pairs]:
    """What was found, in pieces."""
    waiting: list[tuple[SortedRun, Ints, Ints]] = []
    size = 0
    for each in found:
        for of, rows in each.pieces(most):
            if size and size + len(of) > most:
                yield _pairs(came, waiting)
                waiting, size = [], 0
            waiting.append((each.run, of, rows))
            size += len(of)
    if waiting:
        yield _pairs(came, waiting)


def _pairs(came: Tuples, waiting: list[tuple[SortedRun, Ints, Ints]]) -> Pairs:
    if len(waiting) == 1:
        run, of, rows = waiting[0]
        return Pairs(came, of, [(run, rows)])
    return Pairs(
        came,
        np.concatenate([of for _, of, _ in waiting]),
        [(run, rows) for run, _, rows in waiting],
    )
