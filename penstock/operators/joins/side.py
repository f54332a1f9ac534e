"""What is kept of one input of a join: tuples that may still find partners, in sorted runs.

Runs are made of tuples that came one after the other, so each is a slice of time, as wide as the
stream is out of order.  Neighbours of about the same size are merged, so that few are looked
through for a tuple; a run goes away as a whole when progress has passed it.  A run that progress
has passed in part is made anew when such tuples are a large part of what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.joins.sorted_run import SortedRun, Tuples
from penstock.state.chunks import ChunkStore, required

_PASSED = 8  # of so many tuples that are kept, one may be there in vain
_LARGEST = 1 << 20  # tuples of a run that is not merged any more


class Side:
    def __init__(self) -> None:
        self.runs: list[SortedRun] = []  # in the order of arrival
        self._made = 0  # runs that there ever were
        self._stored: set[int] = set()  # runs that a store has, by their numbers

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def add(self, tuples: Tuples) -> None:
        if not len(tuples):
            return
        runs = self.runs
        several = [tuples]
        size = len(tuples)
        while runs and len(runs[-1]) < 2 * size and size + len(runs[-1]) <= _LARGEST:
            several.append(runs.pop().tuples)
            size += len(several[-1])
        runs.append(self._run(Tuples.joined(several[::-1])))

    def forget(self, limit: Bound) -> None:
        """Tuples below the limit find no partner any more."""
        if limit == BEGINNING or not self.runs:
            return
        if limit == END:
            self.runs.clear()
            return
        self.runs = [run for run in self.runs if run.highest >= limit]
        passed = {run.number: run.below(int(limit)) for run in self.runs if run.lowest < limit}
        if sum(passed.values()) * _PASSED > len(self):
            self.runs = [
                self._since(run, int(limit))
                if passed.get(run.number, 0) * _PASSED > len(run)
                else run
                for run in self.runs
            ]

    def _since(self, run: SortedRun, limit: int) -> SortedRun:
        return self._run(run.tuples.take(np.flatnonzero(run.tuples.ticks >= limit)))

    def _run(self, tuples: Tuples) -> SortedRun:
        self._made += 1
        return SortedRun(tuples, self._made)

    def within(self, lowest: int, highest: int) -> Iterator[SortedRun]:
        """The runs that may have tuples from one tick to another."""
        for run in self.runs:
            if run.lowest <= highest and run.highest >= lowest:
                yield run

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """Keys and times follow from the tuples."""
        kept = {run.number for run in self.runs}
        for run in self.runs:
            if run.number not in self._stored:
                store.put(
                    f"runs/{run.number}", {"rows": run.tuples.rows, "signs": run.tuples.signs}
                )
        for number in self._stored - kept:
            store.drop(f"runs/{number}")
        self._stored = kept

    def load(
        self, store: ChunkStore, tuples: Callable[[pa.RecordBatch, Ints | None], Tuples]
    ) -> None:
        """`tuples` finds the keys and times of rows."""
        names = [name.split("/") for name in store.names()]
        self._stored = {int(name[1]) for name in names if name[0] == "runs"}
        for number in sorted(self._stored):
            saved = required(store, f"runs/{number}")
            self.runs.append(SortedRun(tuples(saved["rows"], saved["signs"]), number))
        self._made = max(self._stored, default=0)
