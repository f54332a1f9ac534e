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

from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.batch import Signs
from penstock.operators.joins.sorted_run import SortedRun
from penstock.operators.joins.tuples import Tuples
from penstock.state.chunks import ChunkStore, required

_IN_VAIN = 8  # of so many tuples that are kept, one may be there in vain
_LARGEST = 1 << 20  # tuples of a run that is not merged any more


class Side:
    """`once` says that a tuple which is done with has no use for others either."""

    def __init__(self, once: bool = False) -> None:
        self.runs: list[SortedRun] = []  # in the order of arrival
        self._once = once
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

    def within(self, lowest: int, highest: int) -> Iterator[SortedRun]:
        """The runs that may have tuples from one tick to another."""
        for run in self.runs:
            if run.lowest <= highest and run.highest >= lowest:
                yield run

    def finish_below(self, limit: Bound) -> Iterator[pa.RecordBatch]:
        """The rows below the limit that were not done with; now they are."""
        for run in self.runs:
            if run.lowest < limit and run.tuples.done is not None:
                if limit > run.highest:
                    rows = np.arange(len(run))
                else:
                    rows = run.rows_below(int(limit))
                alone = run.finish(rows)
                if len(alone):
                    yield run.tuples.rows.take(pa.array(alone))

    def forget(self, limit: Bound) -> None:
        """Tuples below the limit find no partner any more."""
        if limit == END:
            self.runs.clear()
            return
        self.runs = [run for run in self.runs if run.highest >= limit]
        vain = {run.number: self._in_vain(run, limit) for run in self.runs}
        if sum(vain.values()) * _IN_VAIN > len(self):
            made = [
                self._useful(run, limit) if vain[run.number] * _IN_VAIN > len(run) else run
                for run in self.runs
            ]
            self.runs = [run for run in made if run is not None]

    def _in_vain(self, run: SortedRun, limit: Bound) -> int:
        passed = run.below(int(limit)) if run.lowest < limit and limit != BEGINNING else 0
        return max(passed, run.finished) if self._once else passed

    def _useful(self, run: SortedRun, limit: Bound) -> SortedRun | None:
        stays = np.ones(len(run), np.bool_)
        if limit != BEGINNING:
            stays = run.tuples.ticks >= int(limit)
        if self._once and run.tuples.done is not None:
            stays &= ~run.tuples.done
        return self._run(run.tuples.only(stays)) if stays.any() else None

    def _run(self, tuples: Tuples) -> SortedRun:
        self._made += 1
        return SortedRun(tuples, self._made)

    @property
    def waiting(self) -> int:
        """How many tuples are given out alone if no partner comes."""
        return sum(len(run) - run.finished for run in self.runs)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """Keys and times follow from the tuples."""
        kept = {run.number for run in self.runs}
        for run in self.runs:
            tuples = run.tuples
            if run.number not in self._stored:
                store.put(f"runs/{run.number}", {"rows": tuples.rows, "signs": tuples.signs})
            if run.touched and tuples.done is not None:
                store.put(f"done/{run.number}", tuples.done)
            run.touched = False
        for number in self._stored - kept:
            store.drop(f"runs/{number}")
            store.drop(f"done/{number}")
        self._stored = kept

    def load(
        self, store: ChunkStore, tuples: Callable[[pa.RecordBatch, Signs | None], Tuples]
    ) -> None:
        """`tuples` finds the keys and times of rows."""
        names = [name.split("/") for name in store.names()]
        self._stored = {int(name[1]) for name in names if name[0] == "runs"}
        for number in sorted(self._stored):
            saved = required(store, f"runs/{number}")
            found = tuples(saved["rows"], saved["signs"])
            done = store.get(f"done/{number}")
            run = SortedRun(found if done is None else found.with_done(done), number)
            run.touched = False
            self.runs.append(run)
        self._made = max(self._stored, default=0)
