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
from penstock.operators.joins.places import Places
from penstock.operators.joins.tuples import Tuples, joined_flags, joined_signs, taken

_SMALL = 1 << 14  # tuples that are counted rather than sorted
_SPARSE = 16  # numbers for each tuple, above which there is no table of keys


@dataclass(eq=False, slots=True)
class SortedRun:
    """Rows stay as they came, beside their signs and which of them are done with; `order` has their
    numbers sorted by key and time, and so are `codes`, `ticks` and `sorted`, their places."""

    rows: pa.RecordBatch
    order: Ints
    codes: Codes
    ticks: Ints
    places: Places
    sorted: Ints
    signs: Signs | None = None
    done: Mask | None = None
    number: int = 0  # among all runs of a side that there ever were
    finished: int = 0  # how many are done with
    touched: bool = True  # whether these are others than those that a store knows of
    _keys: Mask | None = None
    _by_time: tuple[Ints, Ints] | None = None
    _passed: int = 0  # rows, in the order of time, that all are done with

    @staticmethod
    def of(tuples: Tuples, number: int = 0) -> SortedRun:
        places = Places.of_tuples(tuples.codes, tuples.ticks)
        given = places.of(tuples.codes, tuples.ticks)
        order = np.argsort(given)
        run = SortedRun(
            tuples.rows,
            order,
            tuples.codes[order],
            tuples.ticks[order],
            places,
            given[order],
            tuples.signs,
            number=number,
        )
        return run if tuples.done is None else run.with_done(tuples.done)

    @staticmethod
    def merged(several: Sequence[SortedRun], number: int) -> SortedRun:
        begins = np.cumsum([0, *(len(run) for run in several[:-1])]).tolist()
        codes = np.concatenate([run.codes for run in several])
        ticks = np.concatenate([run.ticks for run in several])
        rows = np.concatenate([run.order + at for run, at in zip(several, begins, strict=True)])
        places = Places.around([run.places for run in several], codes, ticks)
        given = places.of(codes, ticks)
        order = np.argsort(given, kind="stable")  # which sees that there are few sorted pieces
        return SortedRun(
            pa.concat_batches([run.rows for run in several]),
            rows[order],
            codes[order],
            ticks[order],
            places,
            given[order],
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
    def lowest(self) -> int:
        return self.places.times.lowest

    @property
    def highest(self) -> int:
        return self.places.times.highest

    # --- partners --------------------------------------------------------------------------------

    def find(self, codes: Codes, lows: Ints, highs: Ints, low: int, high: int) -> Finding:
        """The partners of tuples, which are in the order of their keys, from `low` to `high` at the
        lowest and highest."""
        which: Ints | None = None
        if self.places.is_near(low, high):
            which = self._known(codes)
            if which is not None:
                codes, lows, highs = codes[which], lows[which], highs[which]
            first, last = self.places.between_near(codes, lows, highs)
        else:
            first, last = self.places.between(codes, lows, highs)
        begins = self.sorted.searchsorted(first)
        next_ = self.sorted.take(begins, mode="clip")  # many tuples have none
        found = np.flatnonzero((next_ >= first) & (next_ <= last))
        begins = begins[found]
        counts = self.sorted.searchsorted(last[found], side="right") - begins
        return Finding(found if which is None else which[found], begins, counts)

    def _known(self, codes: Codes) -> Ints | None:
        """Which tuples may have a key that is here; None if all may."""
        keys = self.places.keys
        begin = int(codes.searchsorted(keys.lowest))
        stop = int(codes.searchsorted(keys.highest, side="right"))
        if keys.size == 1 or keys.size > _SPARSE * len(self):
            return None if stop - begin == len(codes) else np.arange(begin, stop)
        if self._keys is None:
            self._keys = self.places.has_keys(self.codes)
        known = np.flatnonzero(self._keys[codes[begin:stop] - keys.lowest])
        return known + begin if begin else known

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
            order = np.argsort(self.ticks)
            self._by_time = self.ticks[order], self.order[order]
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
        rows, codes, ticks = self.order[which], self.codes[which], self.ticks[which]
        places = Places.of_sorted(codes, ticks)
        run = SortedRun(
            taken(self.rows, pa.array(rows)),
            np.arange(len(rows)),
            codes,
            ticks,
            places,
            places.of(codes, ticks),
            None if self.signs is None else self.signs[rows],
            number=number,
        )
        return run if self.done is None else run.with_done(self.done[rows])

    def recoded(self, place: Codes) -> SortedRun:
        """The same with other codes for keys, which are in the same order."""
        codes = place[self.codes]
        places = Places.of_sorted(codes, self.ticks)
        made = replace(self, codes=codes, places=places, sorted=places.of(codes, self.ticks))
        made._keys = None
        return made


class Finding(NamedTuple):
    """Which tuples have partners, where in the order of a run these begin, and how many."""

    of: Ints
    begins: Ints
    counts: Ints
