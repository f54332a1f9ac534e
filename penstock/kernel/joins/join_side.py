"""The kept tuples of one input of a join, as sorted runs, and how arriving tuples find partners.

From the parts to the whole: pairs in pieces that fit into memory, the newest tuples, the side with
its runs, the search for many or few tuples, and arriving tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch, Signs
from penstock.kernel.joins.sorted_run import (
    KeyTimePlaces,
    SortedRun,
    Tuples,
    WantedPlaces,
    gathered_columns,
    gathered_rows,
    joined_if_any,
    joined_signs,
)
from penstock.kernel.state import ChunkStore, required
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX, INT64_MIN

AT_ONCE = 1 << 16  # pairs


@dataclass(frozen=True, slots=True)
class Found:
    """Partners in one run: for which rows, where they begin in the order of the run, and their
    counts.
    """

    run: SortedRun
    of: Ints
    begins: Ints
    counts: Ints
    size: int  # pairs

    def pieces(self, most: int) -> Iterator[tuple[Ints, Ints]]:
        """Iterate over the pairs, at most `most` at a time: the row that arrived and the row in
        the run.
        """
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
    """Tuples that arrived: rows, with signs and lineage if pairs may be retracted."""

    @property
    def rows(self) -> pa.RecordBatch: ...

    @property
    def signs(self) -> Signs | None: ...

    @property
    def lineage(self) -> Ints | None: ...


@dataclass(frozen=True, slots=True)
class Pairs:
    """Arrived rows paired with kept rows: the former by index, the latter by index for each run,
    one run after the other.
    """

    came: Arrived
    of: Ints
    kept: Sequence[tuple[SortedRun, Ints]]

    def __len__(self) -> int:
        return len(self.of)

    def columns(self, came: bool, which: Sequence[int] | None = None) -> list[pa.Array]:
        """Columns of the arrived rows, or of the kept ones: the selected columns, or all."""
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
        """Signs of the pairs: the product of the signs of both tuples."""
        came = None if self.came.signs is None else self.came.signs[self.of]
        sides = [(run.signs, rows) for run, rows in self.kept]
        kept = joined_signs([(None if s is None else s[rows], len(rows)) for s, rows in sides])
        return came if kept is None else kept if came is None else came * kept

    def lineage(self, port: int) -> Ints | None:
        """Lineage of the pairs: that of both tuples, the left one first; None if nothing is ever
        retracted. `port` is that of the tuples that arrived.
        """
        kept = joined_if_any(
            [None if run.lineage is None else run.lineage[rows] for run, rows in self.kept]
        )
        if kept is None or self.came.lineage is None:
            return None
        came = self.came.lineage[self.of]
        return np.hstack([came, kept] if port == 0 else [kept, came])


def pairs_of(came: Arrived, found: Sequence[Found], most: int = AT_ONCE) -> Iterator[Pairs]:
    """Iterate over the pairs found, at most `most` at a time."""
    for pieces in pieces_of(found, most):
        of = [each for _, each, _ in pieces]
        kept = [(run, rows) for run, _, rows in pieces]
        yield Pairs(came, of[0] if len(of) == 1 else np.concatenate(of), kept)


def pieces_of(
    found: Sequence[Found], most: int = AT_ONCE
) -> Iterator[list[tuple[SortedRun, Ints, Ints]]]:
    """Iterate over lists of (run, arrived rows, rows of their partners in the run), of at most
    `most` pairs each.
    """
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


# The newest tuples of an input while they arrive a few at a time: sorting those would not pay.

_ROOM = 32  # tuples
FEW = 4  # that come together


class Newest:
    """Small buffer of the newest tuples of an input, searched linearly until it becomes a run."""

    def __init__(self) -> None:
        self._tuples: list[Tuples] = []
        self._size = 0
        self._codes = np.zeros(_ROOM, np.int64)
        self._ticks = np.zeros(_ROOM, np.int64)
        self.lowest: Bound = END

    def __len__(self) -> int:
        return self._size

    def takes(self, tuples: Tuples) -> bool:
        return self._size + len(tuples) <= _ROOM

    def add(self, tuples: Tuples) -> None:
        size = len(tuples)
        if not size:
            return
        end = self._size + size
        self._codes[self._size : end], self._ticks[self._size : end] = tuples.codes, tuples.ticks
        self._tuples.append(tuples)
        self._size = end
        self.lowest = min(self.lowest, *tuples.ticks.tolist())

    def has(self, code: int, low: int, high: int) -> bool:
        """Whether a tuple has this key and a time within the bounds."""
        size = self._size
        if not size:
            return False
        ticks = self._ticks[:size]
        found = (self._codes[:size] == code) & (ticks >= low) & (ticks <= high)
        return bool(found.any())

    def leave(self) -> Tuples:
        tuples, self._tuples = self._tuples, []
        self._size, self.lowest = 0, END
        return Tuples.joined(tuples)


# The state of one input of a join: tuples that may still find partners, in sorted runs.
#
# A run is made of tuples that arrived one after the other, so it is a slice of time, as wide as the
# stream is out of order.  Neighbours of about the same size are merged, so that few are searched
# for a tuple; a run is evicted as a whole when the bound has passed it.  A run that the bound has
# passed in part is rebuilt when obsolete tuples are a large part of what is kept.

_OBSOLETE_ONE_IN = 5  # one of so many kept tuples may be obsolete
_ALIKE = 4  # a run is merged with a new one if it is at most so many times as large
_LARGEST = 1 << 18  # tuples of the largest run that merging makes


class Side:
    """State of one input of a join, as sorted runs in arrival order.

    With `once`, a tuple that is done with (see `Tuples`) finds no further partners, and can be
    evicted.
    """

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
        """Places of the newest run; the other runs share them, unless keys or times have left
        their range.
        """
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
        """Turn the newest tuples into a run."""
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
        """Runs that may have tuples from one tick to another."""
        self.settle()
        return self._within(lowest, highest)

    def runs_for(self, few: Sequence[tuple[int, int, int]]) -> list[list[SortedRun]]:
        """Runs that may have partners, for each tuple with a key and the bounds of its partners'
        times.
        """
        if any(self._newest.has(*each) for each in few):
            self.settle()  # before any of them is looked at: runs are merged
        return [self._within(lowest, highest) for _, lowest, highest in few]

    def _within(self, lowest: int, highest: int) -> list[SortedRun]:
        return [run for run in self._runs if run.lowest <= highest and run.highest >= lowest]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All kept tuples, for export to a join that takes the place of this one."""
        self.settle()
        for run in self._runs:
            assert run.signs is None, "only joins of plain tuples stand in for each other"
            yield run.rows

    def batches(self) -> Iterator[Batch]:
        """All kept tuples with their signs and lineage."""
        self.settle()
        for run in self._runs:
            yield Batch(run.rows, run.signs, lineage=run.lineage)

    # --- what is gone ----------------------------------------------------------------------------

    def finish_below(self, limit: Bound) -> Iterator[pa.RecordBatch]:
        """Mark the rows below the limit as done with; yield those that were not before."""
        if self._newest.lowest < limit:
            self.settle()
        for run in self._runs:
            if run.lowest < limit:
                alone = run.finish_below(limit)
                if len(alone):
                    yield gathered_rows(run.rows, alone)

    def finish_where(self, passed: Callable[[pa.RecordBatch], Mask]) -> Iterator[pa.RecordBatch]:
        """Mark the rows that a test selects as done with; yield those that were not before."""
        self.settle()
        for run in self._runs:
            if run.finished < len(run):
                alone = run.finish(np.flatnonzero(passed(run.rows)))
                if len(alone):
                    yield gathered_rows(run.rows, alone)

    def forget(self, limit: Bound) -> None:
        """Evict the tuples below the limit: they find no partner any more."""
        if self._newest.lowest < limit:
            self.settle()
        if limit == END:
            self._runs.clear()
            return
        self._runs = [run for run in self._runs if run.highest >= limit]
        obsolete = [self._count_obsolete(run, limit) for run in self._runs]
        if sum(obsolete) * _OBSOLETE_ONE_IN > len(self):
            pairs = zip(self._runs, obsolete, strict=True)
            made = [
                self._without_obsolete(run, limit) if here * _OBSOLETE_ONE_IN > len(run) else run
                for run, here in pairs
            ]
            self._runs = [run for run in made if run is not None]

    def _count_obsolete(self, run: SortedRun, limit: Bound) -> int:
        passed = run.below(int(limit)) if run.lowest < limit else 0
        return max(passed, run.finished) if self._once else passed

    def _without_obsolete(self, run: SortedRun, limit: Bound) -> SortedRun | None:
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
        """Replace the codes of keys by others in the same order."""
        runs, self._runs = self._runs, []
        for run in runs:
            self._runs.append(run.recoded(place, self.places))

    # --- state -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of tuples that are emitted alone if no partner comes."""
        self.settle()
        return sum(len(run) - run.finished for run in self._runs)

    def save(self, store: ChunkStore) -> None:
        """Save the tuples alone: keys and times follow from them."""
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
        """Restore the runs; `tuples` computes the keys and times of rows."""
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


# Search for kept tuples by key and time, for many arriving tuples or for a few.


def find_many(
    side: Side, codes: Codes, lows: Ints, highs: Ints, order: Ints, all_fit: bool
) -> list[Found]:
    """Find the partners of many tuples, sorted by key; `order` has their row numbers. `all_fit`
    says that no upper bound on a time is below its lower bound.
    """
    low, high = INT64_MIN, INT64_MAX
    if all_fit:
        low, high = int(np.minimum.reduce(lows)), int(np.maximum.reduce(highs))
    wanted: WantedPlaces | None = None
    found = []
    for run in side.runs(low, high):
        if wanted is None or wanted.places is not run.places:
            wanted = run.places.wanted(codes, lows, highs, low, high)
        of, begins, counts = run.find(wanted)
        if len(of):
            found.append(Found(run, order[of], begins, counts, int(counts.sum())))
    return found


def find_few(side: Side, codes: Codes, lows: Ints, highs: Ints) -> list[Found]:
    """Find the partners of a few tuples, in any order, one after the other."""
    found = []
    asked = list(zip(*(column.tolist() for column in (codes, lows, highs)), strict=True))
    for row, runs in enumerate(side.runs_for(asked)):
        places: KeyTimePlaces | None = None
        wanted: tuple[int, int] | None = None
        for run in runs:
            if places is not run.places:
                places = run.places
                wanted = places.wanted_one(*asked[row])
            if wanted is None:
                continue
            begin, count = run.find_one(wanted)
            if count:
                of, begins, counts = (np.array([each]) for each in (row, begin, count))
                found.append(Found(run, of, begins, counts, count))
    return found


# Tuples that arrive at a join: they look for partners among the kept ones, and are kept themselves.
# Many are sorted first, because the search is much faster in order; few are not.

# for the times of tuples, the lowest and the highest time of their partners
Partners: TypeAlias = Callable[[Ints], tuple[Ints, Ints]]


class ManyArrivals:
    """Many arriving tuples, sorted by key and time."""

    def __init__(self, tuples: Tuples, partners: Partners, side: Side) -> None:
        self._run = run = SortedRun.of(tuples, side.places)
        self._codes = tuples.codes[run.order]
        self.lows, self.highs = partners(tuples.ticks[run.order])
        self.fit: Mask = self.highs >= self.lows  # which tuples can have partners at all

    @property
    def rows(self) -> pa.RecordBatch:
        return self._run.rows

    @property
    def signs(self) -> Signs | None:
        return self._run.signs

    @property
    def lineage(self) -> Ints | None:
        return self._run.lineage

    def found(self, side: Side) -> list[Found]:
        columns = (self._codes, self.lows, self.highs)
        return find_many(side, *columns, self._run.order, bool(self.fit.all()))

    def of_rows(self, flags: Mask) -> Mask:
        """Reorder flags of rows into the sorted order."""
        return flags[self._run.order]

    def in_rows(self, flags: Mask) -> Mask:
        """Reorder flags from the sorted order into that of the rows."""
        placed = np.empty_like(flags)
        placed[self._run.order] = flags
        return placed

    def keep(self, side: Side, stays: Mask, done: Mask | None) -> None:
        staying = np.count_nonzero(stays)
        if staying:
            run = self._run if done is None else self._run.with_done(done)
            side.add(run if staying == len(stays) else run.only(stays))


class FewArrivals:
    """A few arriving tuples, in arrival order."""

    def __init__(self, tuples: Tuples, partners: Partners) -> None:
        self._tuples = tuples
        self.lows, self.highs = partners(tuples.ticks)
        self.fit: Mask = self.highs >= self.lows

    @property
    def rows(self) -> pa.RecordBatch:
        return self._tuples.rows

    @property
    def signs(self) -> Signs | None:
        return self._tuples.signs

    @property
    def lineage(self) -> Ints | None:
        return self._tuples.lineage

    def found(self, side: Side) -> list[Found]:
        return find_few(side, self._tuples.codes, self.lows, self.highs)

    def of_rows(self, flags: Mask) -> Mask:
        return flags

    def in_rows(self, flags: Mask) -> Mask:
        return flags

    def keep(self, side: Side, stays: Mask, done: Mask | None) -> None:
        tuples = self._tuples if done is None else self._tuples.with_done(done)
        side.add_few(tuples.only(stays))


Arrivals: TypeAlias = ManyArrivals | FewArrivals


def arrivals(tuples: Tuples, partners: Partners, side: Side) -> Arrivals:
    """Prepare tuples that arrived, and that may be kept at `side`."""
    if len(tuples) <= FEW:
        return FewArrivals(tuples, partners)
    return ManyArrivals(tuples, partners, side)
