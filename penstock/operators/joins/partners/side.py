"""What is kept of one input of a join: tuples that may still find partners, in sorted runs.

Runs are made of tuples that came one after the other, so each is a slice of time, as wide as the
stream is out of order.  Neighbours of about the same size are merged, so that few are looked
through for a tuple; a run goes away as a whole when progress has passed it.  A run that progress
has passed in part is made anew when such tuples are a large part of what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.batch import Batch
from penstock.operators.joins.partners.gathering import gathered_rows
from penstock.operators.joins.partners.newest import Newest
from penstock.operators.joins.partners.places import KeyTimePlaces
from penstock.operators.joins.partners.sorted_run import SortedRun
from penstock.operators.joins.partners.tuples import Tuples
from penstock.state.chunks import ChunkStore, required

_IN_VAIN = 5  # of so many tuples that are kept, one may be there in vain
_ALIKE = 4  # times as large a run may be as the one that comes, to be merged with it
_LARGEST = 1 << 18  # tuples of a run that is not merged any more


class Side:
    """`once` says that a tuple which is done with has no use for others either."""

    def __init__(self, once: bool = False) -> None:
        self._runs: list[SortedRun] = []  # in the order of arrival
        self._newest = Newest()  # tuples that came alone, since the last run
        self._once = once
        self._made = 0  # runs that there ever were
        self._stored: set[int] = set()  # runs that a store has, by their numbers

    def __len__(self) -> int:
        return sum(map(len, self._runs)) + len(self._newest)

    @property
    def places(self) -> KeyTimePlaces | None:
        """Of the newest run; others have the same, unless keys or times have left them."""
        return self._runs[-1].places if self._runs else None

    def add_few(self, tuples: Tuples) -> None:
        if len(tuples):
            if not self._newest.takes(tuples):
                self.settle()
            self._newest.add(tuples)

    def add(self, run: SortedRun) -> None:
        if len(run):
            self.settle()
            self._append(run)

    def settle(self) -> None:
        """Let tuples that came alone be a run."""
        if len(self._newest):
            self._append(SortedRun.of(self._newest.leave(), self.places))

    def _append(self, run: SortedRun) -> None:
        run.number = self._next()
        runs, several, size = self._runs, [run], len(run)
        while runs and len(runs[-1]) < _ALIKE * size and size + len(runs[-1]) <= _LARGEST:
            several.append(runs.pop())
            size += len(several[-1])
        if len(several) > 1:
            run = SortedRun.merged(several[::-1], self._next())
        runs.append(run)

    def _next(self) -> int:
        self._made += 1
        return self._made

    def runs(self, lowest: int, highest: int) -> list[SortedRun]:
        """Those that may have tuples from one tick to another."""
        self.settle()
        return self._within(lowest, highest)

    def runs_for(self, few: Sequence[tuple[int, int, int]]) -> list[list[SortedRun]]:
        """Those that may have partners for tuples with a key and the bounds of their times."""
        if any(self._newest.has(*each) for each in few):
            self.settle()  # before any of them is looked at: runs are merged
        return [self._within(lowest, highest) for _, lowest, highest in few]

    def _within(self, lowest: int, highest: int) -> list[SortedRun]:
        return [run for run in self._runs if run.lowest <= highest and run.highest >= lowest]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All tuples that are kept, for a join that stands in for this one."""
        self.settle()
        for run in self._runs:
            assert run.signs is None, "only joins of plain tuples stand in for each other"
            yield run.rows

    def batches(self) -> Iterator[Batch]:
        """The same with what is beside them."""
        self.settle()
        for run in self._runs:
            yield Batch(run.rows, run.signs, lineage=run.lineage)

    # --- what is gone ----------------------------------------------------------------------------

    def finish_below(self, limit: Bound) -> Iterator[pa.RecordBatch]:
        """The rows below the limit that were not done with; now they are."""
        if self._newest.lowest < limit:
            self.settle()
        for run in self._runs:
            if run.lowest < limit:
                alone = run.finish_below(limit)
                if len(alone):
                    yield gathered_rows(run.rows, alone)

    def finish_where(self, passed: Callable[[pa.RecordBatch], Mask]) -> Iterator[pa.RecordBatch]:
        """The same for the rows that a test says have been passed."""
        self.settle()
        for run in self._runs:
            if run.finished < len(run):
                alone = run.finish(np.flatnonzero(passed(run.rows)))
                if len(alone):
                    yield gathered_rows(run.rows, alone)

    def forget(self, limit: Bound) -> None:
        """Tuples below the limit find no partner any more."""
        if self._newest.lowest < limit:
            self.settle()
        if limit == END:
            self._runs.clear()
            return
        self._runs = [run for run in self._runs if run.highest >= limit]
        vain = [self._in_vain(run, limit) for run in self._runs]
        if sum(vain) * _IN_VAIN > len(self):
            pairs = zip(self._runs, vain, strict=True)
            made = [
                self._useful(run, limit) if here * _IN_VAIN > len(run) else run
                for run, here in pairs
            ]
            self._runs = [run for run in made if run is not None]

    def _in_vain(self, run: SortedRun, limit: Bound) -> int:
        passed = run.below(int(limit)) if run.lowest < limit else 0
        return max(passed, run.finished) if self._once else passed

    def _useful(self, run: SortedRun, limit: Bound) -> SortedRun | None:
        stays: Mask = np.ones(len(run), np.bool_)
        if limit != BEGINNING:
            stays = ~run.places.below(run.sorted, int(limit))
        if self._once and run.done is not None:
            stays &= ~run.done[run.order]
        return run.only(stays, self._next()) if stays.any() else None

    # --- keys ------------------------------------------------------------------------------------

    def mark(self, live: Mask) -> None:
        """Mark the keys that tuples have."""
        self.settle()
        for run in self._runs:
            live[run.codes] = True

    def recode(self, place: Codes) -> None:
        """Keys have other codes from now on, in the same order."""
        runs, self._runs = self._runs, []
        for run in runs:
            self._runs.append(run.recoded(place, self.places))

    # --- state -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many tuples are given out alone if no partner comes."""
        self.settle()
        return sum(len(run) - run.finished for run in self._runs)

    def save(self, store: ChunkStore) -> None:
        """Keys and times follow from the tuples."""
        self.settle()
        for run in self._runs:
            if run.number not in self._stored:
                chunk = {"rows": run.rows, "signs": run.signs, "lineage": run.lineage}
                store.put(f"runs/{run.number}", chunk)
            if run.touched and run.done is not None:
                store.put(f"done/{run.number}", run.done)
            run.touched = False
        kept = {run.number for run in self._runs}
        for number in self._stored - kept:
            store.drop(f"runs/{number}")
            store.drop(f"done/{number}")
        self._stored = kept

    def load(self, store: ChunkStore, tuples: Callable[[Batch], Tuples]) -> None:
        """`tuples` finds the keys and times of rows."""
        names = [name.split("/") for name in store.names()]
        self._stored = {int(name[1]) for name in names if name[0] == "runs"}
        for number in sorted(self._stored):
            saved = required(store, f"runs/{number}")
            batch = Batch(saved["rows"], saved["signs"], lineage=saved.get("lineage"))
            found, done = tuples(batch), store.get(f"done/{number}")
            run = SortedRun.of(found if done is None else found.with_done(done), self.places)
            run.number, run.touched = number, False
            self._runs.append(run)
        self._made = max(self._stored, default=0)
