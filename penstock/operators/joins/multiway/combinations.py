"""Combinations of tuples, one of each input that has been looked at so far.

They are numbers of rows; columns are only made of what somebody asks for.  So a combination that
finds no tuple of the next input has cost little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Signs
from penstock.operators.joins.partners.gathering import gathered_columns
from penstock.operators.joins.partners.pairs import Arrived
from penstock.operators.joins.partners.sorted_run import SortedRun
from penstock.operators.joins.partners.tuples import joined_if_any, joined_signs


@dataclass(frozen=True, slots=True)
class ChosenTuples:
    """Tuples of one input: for each combination the number of a row, counted through `sources`, in
    which those of each begin at a number."""

    sources: Sequence[Arrived]
    begins: Ints
    rows: Ints

    @staticmethod
    def all_of(source: Arrived) -> ChosenTuples:
        return ChosenTuples([source], np.zeros(1, np.int64), np.arange(source.rows.num_rows))

    @staticmethod
    def among(parts: Sequence[tuple[SortedRun, Ints]]) -> ChosenTuples:
        """Some rows of every run, one after the other."""
        sizes = [run.rows.num_rows for run, _ in parts]
        begins = np.cumsum([0, *sizes[:-1]])
        if len(parts) == 1:
            return ChosenTuples([parts[0][0]], begins, parts[0][1])
        numbered = zip(begins.tolist(), parts, strict=True)
        rows = np.concatenate([rows + begin for begin, (_, rows) in numbered])
        return ChosenTuples([run for run, _ in parts], begins, rows)

    def take(self, which: Ints | Mask) -> ChosenTuples:
        return ChosenTuples(self.sources, self.begins, self.rows[which])

    def columns(self, which: Sequence[int] | None = None) -> list[pa.Array]:
        """Some columns, or all."""
        parts, back = self._by_source()
        found = gathered_columns([(source.rows, rows) for source, rows in parts], which)
        return found if back is None else [column.take(pa.array(back)) for column in found]

    def signs(self) -> Signs | None:
        parts, back = self._by_source()
        own = [(None if s.signs is None else s.signs[rows], len(rows)) for s, rows in parts]
        found = joined_signs(own)
        return found if found is None or back is None else found[back]

    def lineage(self) -> Ints | None:
        parts, back = self._by_source()
        found = joined_if_any([None if s.lineage is None else s.lineage[r] for s, r in parts])
        return found if found is None or back is None else found[back]

    def _by_source(self) -> tuple[list[tuple[Arrived, Ints]], Ints | None]:
        """The rows of each source, one after the other; and, if that is not the order in which they
        are chosen, where each of them is to be found."""
        if len(self.sources) == 1 or not len(self.rows):
            return [(self.sources[0], self.rows)], None
        of = self.begins.searchsorted(self.rows, side="right") - 1
        rows, back = self.rows - self.begins[of], None
        if (of[1:] < of[:-1]).any():
            order = stable_order(of)
            of, rows = of[order], rows[order]
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
        ends = np.searchsorted(of, np.arange(len(self.sources) + 1))
        spans = zip(self.sources, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        return [(source, rows[a:b]) for source, a, b in spans if b > a], back


@dataclass(frozen=True, slots=True)
class Combinations:
    """By the number of an input: its tuples."""

    chosen: Mapping[int, ChosenTuples]
    size: int

    def __len__(self) -> int:
        return self.size

    def with_partners(
        self, pieces: Sequence[tuple[SortedRun, Ints, Ints]], new: int
    ) -> Combinations:
        """Those that have partners of another input, with them: for each run of that input, which
        ones, and the rows of the run."""
        of = [each for _, each, _ in pieces]
        which = of[0] if len(of) == 1 else np.concatenate(of)
        chosen = {number: tuples.take(which) for number, tuples in self.chosen.items()}
        chosen[new] = ChosenTuples.among([(run, rows) for run, _, rows in pieces])
        return Combinations(chosen, len(which))

    def filter(self, holds: Mask) -> Combinations:
        if holds.all():
            return self
        which = np.flatnonzero(holds)
        chosen = {number: tuples.take(which) for number, tuples in self.chosen.items()}
        return Combinations(chosen, len(which))
