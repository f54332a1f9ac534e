"""Tuples of one input of a join, sorted by key and time: partners are found by bisection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import Bound
from penstock.operators.batch import Signs
from penstock.operators.joins.places import KeyTimePlaces
from penstock.operators.joins.tuples import Tuples, joined_flags, joined_signs, taken
from penstock.windows.columns import extremes

_SMALL = 1 << 14  # tuples that are counted rather than sorted
_FEW = 1 << 12  # tuples that it does not pay to leave some out of
_SPARSE = 16  # numbers for each tuple, above which there is no table of keys


@dataclass(eq=False, slots=True)
class SortedRun:
    """Rows stay as they came, beside their signs and which of them are done with; `order` has their
    numbers sorted by key and time, and `sorted` their places."""

    rows: pa.RecordBatch
    order: Ints
    places: KeyTimePlaces
    sorted: Ints
    lowest: int  # of all times
    highest: int
    signs: Signs | None = None
    done: Mask | None = None
    number: int = 0  # among all runs of a side that there ever were
    finished: int = 0  # how many are done with
    touched: bool = True  # whether these are others than those that a store knows of
    _keys: Mask | None = None
    _by_time: tuple[Ints, Ints] | None = None
    _passed: int = 0  # rows, in the order of time, that all are done with

    @staticmethod
    def of(tuples: Tuples, like: KeyTimePlaces | None = None) -> SortedRun:
        """With places such as others have, if that will do: so they can be merged at once."""
        codes, ticks, times = tuples.codes, tuples.ticks, extremes(tuples.ticks)
        places = KeyTimePlaces.between_ends(extremes(codes), times, codes, ticks, like)
        given = places.of(codes, ticks)
        order = np.argsort(given)
        run = SortedRun(tuples.rows, order, places, given[order], *times, tuples.signs)
        return run if tuples.done is None else run.with_done(tuples.done)

    @staticmethod
    def merged(several: Sequence[SortedRun], number: int) -> SortedRun:
        times = min(run.lowest for run in several), max(run.highest for run in several)
        places, given = _together(several, times)
        order = np.argsort(given, kind="stable")  # which sees that there are few sorted pieces
        begins = np.cumsum([0, *(len(run) for run in several[:-1])]).tolist()
        rows = np.concatenate([run.order + at for run, at in zip(several, begins, strict=True)])
        return SortedRun(
            pa.concat_batches([run.rows for run in several]),
            rows[order],
            places,
            given[order],
            *times,
            joined_signs([(run.signs, len(run)) for run in several]),
            joined_flags([run.done for run in several]),
            number,
            sum(run.finished for run in several),
        )

    def with_done(self, done: Mask) -> SortedRun:
        self.done, self.finished = done, int(np.count_nonzero(done))
        return self

    def __len__(self) -> int:
        return len(self.order)

    @property
    def codes(self) -> Codes:
        return self.places.codes(self.sorted)

    @property
    def ticks(self) -> Ints:
        return self.places.ticks(self.sorted)

    # --- partners --------------------------------------------------------------------------------

    def find(self, codes: Codes, lows: Ints, highs: Ints, low: int, high: int) -> Finding:
        """The partners of tuples, which are in the order of their keys, from `low` to `high` at the
        lowest and highest."""
        which = self._known(codes)
        if which is not None:
            codes, lows, highs = codes[which], lows[which], highs[which]
        first, last = self.places.between(codes, lows, highs, low, high)
        begins = self.sorted.searchsorted(first)
        next_ = self.sorted.take(begins, mode="clip")  # many tuples have none
        found = np.flatnonzero((next_ >= first) & (next_ <= last))
        begins = begins[found]
        counts = self.sorted.searchsorted(last[found], side="right") - begins
        return Finding(found if which is None else which[found], begins, counts)

    def _known(self, codes: Codes) -> Ints | None:
        """Which tuples have to be looked for; None if all.  A key that is far away has no place."""
        keys = self.places.keys
        if keys is not None:
            return np.flatnonzero(keys.take(np.searchsorted(keys, codes), mode="clip") == codes)
        if len(codes) <= _FEW and self.places.fit((int(codes[0]), int(codes[-1]))):
            return None
        lowest, highest = self._ends
        begin = int(codes.searchsorted(lowest))
        stop = int(codes.searchsorted(highest, side="right"))
        size = highest - lowest + 1
        if size == 1 or size > _SPARSE * len(self):
            return None if stop - begin == len(codes) else np.arange(begin, stop)
        if self._keys is None:
            self._keys = np.zeros(size, np.bool_)
            self._keys[self.codes - lowest] = True
        known = np.flatnonzero(self._keys[codes[begin:stop] - lowest])
        return known + begin if begin else known

    @property
    def _ends(self) -> tuple[int, int]:
        """The lowest and the highest key."""
        first, last = int(self.sorted[0]), int(self.sorted[-1])
        bits, key = self.places.bits, self.places.key
        return (first >> bits) + key, (last >> bits) + key

    def find_one(self, code: int, low: int, high: int) -> tuple[int, int]:
        """Where in the order the partners of one tuple begin, and how many there are."""
        between = self.places.between_one(code, low, high)
        if between is None:
            return 0, 0
        begin, stop = self.sorted.searchsorted(between).tolist()
        return begin, stop - begin

    # --- what is gone ----------------------------------------------------------------------------

    def below(self, limit: int) -> int:
        """How many tuples are below a tick."""
        if len(self) <= _SMALL:
            return int(np.count_nonzero(self.ticks < limit))
        return int(self._in_time()[0].searchsorted(limit))

    def finish_below(self, limit: Bound) -> Ints:
        """Be done with all rows below a tick; those that this is news of."""
        ticks, rows = self._in_time()
        stop = len(rows) if limit > self.highest else int(ticks.searchsorted(limit))
        passed, self._passed = self._passed, max(stop, self._passed)
        return self.finish(rows[passed:stop])

    def _in_time(self) -> tuple[Ints, Ints]:
        """Ticks in order, and the rows that have them."""
        if self._by_time is None:
            ticks = self.ticks
            order = np.argsort(ticks)
            self._by_time = ticks[order], self.order[order]
        return self._by_time

    def finish(self, rows: Ints) -> Ints:
        """Be done with rows; those that this is news of, each once."""
        assert self.done is not None
        fresh: Ints = np.unique(rows[~self.done[rows]])
        if len(fresh):
            self.done[fresh] = True
            self.finished += len(fresh)
            self.touched = True
        return fresh

    def only(self, which: Mask, number: int = 0) -> SortedRun:
        """Some of the tuples, by their places in the order."""
        some = np.flatnonzero(which)
        rows, places = self.order[some], self.sorted[some]
        run = SortedRun(
            taken(self.rows, pa.array(rows)),
            np.arange(len(rows)),
            self.places,
            places,
            *extremes(self.places.ticks(places)),
            None if self.signs is None else self.signs[rows],
            number=number,
        )
        return run if self.done is None else run.with_done(self.done[rows])

    def recoded(self, place: Codes) -> SortedRun:
        """The same with other codes for keys, which are in the same order."""
        codes, ticks = place[self.codes], self.ticks
        places = KeyTimePlaces.of_tuples(codes, ticks)
        return replace(self, places=places, sorted=places.of(codes, ticks), _keys=None)


class Finding(NamedTuple):
    """Which tuples have partners, where in the order of a run these begin, and how many."""

    of: Ints
    begins: Ints
    counts: Ints


def _together(several: Sequence[SortedRun], times: tuple[int, int]) -> tuple[KeyTimePlaces, Ints]:
    """The places of the tuples of some runs, one after the other."""
    last = several[-1].places
    if all(run.places.is_plain for run in several):
        alike = all((run.places.bits, run.places.key) == (last.bits, last.key) for run in several)
        if alike and times[1] - times[0] >> last.bits == 0:
            places = replace(last, time=times[0])
            moved = [run.sorted + (run.places.time - times[0]) for run in several]
            return places, np.concatenate(moved)
    codes = np.concatenate([run.codes for run in several])
    ticks = np.concatenate([run.ticks for run in several])
    places = KeyTimePlaces.between_ends(extremes(codes), times, codes, ticks, last)
    return places, places.of(codes, ticks)
