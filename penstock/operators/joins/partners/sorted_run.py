"""Tuples of one input of a join, sorted by key and time: partners are found by bisection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import Bound
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Signs
from penstock.operators.joins.partners.gathering import gathered_rows
from penstock.operators.joins.partners.places import KeyTimePlaces, WantedPlaces
from penstock.operators.joins.partners.tuples import Tuples, joined_if_any, joined_signs
from penstock.windows.columns import extremes

_SMALL = 1 << 14  # tuples that are counted rather than sorted
_FEW = 1 << 12  # tuples that it does not pay to leave some out of
_SPARSE = 16  # numbers for each tuple, above which there is no table of keys


@dataclass(eq=False, slots=True)
class SortedRun:
    """Rows stay as they came, beside their signs, lineage and which of them are done with; `order`
    has their numbers sorted by key and time, and `sorted` their places."""

    rows: pa.RecordBatch
    order: Ints
    places: KeyTimePlaces
    sorted: Ints
    lowest: int  # of all times
    highest: int
    signs: Signs | None = None
    lineage: Ints | None = None
    done: Mask | None = None
    number: int = 0  # among all runs of a side that there ever were
    finished: int = 0  # how many are done with
    touched: bool = True  # whether these are others than those that a store knows of
    _keys: Mask | None = None
    _by_time: tuple[Ints, Ints] | None = None
    _passed: int = 0  # rows, in the order of time, that all are done with

    @staticmethod
    def of(tuples: Tuples, like: KeyTimePlaces | None = None) -> SortedRun:
        """With the places that others have, if that will do."""
        codes, ticks = tuples.codes, tuples.ticks
        keys, times = extremes(codes), extremes(ticks)
        places = KeyTimePlaces.between_ends(keys, times, codes, ticks, like)
        given = places.of(codes, ticks)
        order = places.order(given, keys, times)
        beside = tuples.signs, tuples.lineage
        run = SortedRun(tuples.rows, order, places, given[order], *times, *beside)
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
            joined_if_any([run.lineage for run in several]),
            joined_if_any([run.done for run in several]),
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

    def find(self, wanted: WantedPlaces) -> Finding:
        """The partners of tuples, by their places."""
        first, last = wanted.first, wanted.last
        which = self._known(wanted.codes) if len(first) > _FEW else None
        if which is not None:
            first, last = first[which], last[which]
        begins = self.sorted.searchsorted(first)
        next_ = self.sorted.take(begins, mode="clip")  # many tuples have none
        found = np.flatnonzero((next_ >= first) & (next_ <= last))
        begins = begins[found]
        counts = self.sorted.searchsorted(last[found], side="right") - begins
        for chosen in (which, wanted.which):
            found = found if chosen is None else chosen[found]
        return Finding(found, begins, counts)

    def _known(self, codes: Codes) -> Ints | None:
        """Which tuples have to be looked for; None if all."""
        if not self.places.is_plain:
            return None
        lowest, highest = self._ends
        begin = int(codes.searchsorted(lowest))
        stop = int(codes.searchsorted(highest, side="right"))
        size = highest - lowest + 1
        if size == 1 or size > _SPARSE * len(self):
            return None if stop - begin == len(codes) else np.arange(begin, stop)
        keys = self._keys
        if keys is None:
            keys = np.zeros(size, np.bool_)
            keys[self.codes - lowest] = True
            self._keys = keys  # now that it is complete: several threads may look
        known = np.flatnonzero(keys[codes[begin:stop] - lowest])
        return known + begin if begin else known

    @property
    def _ends(self) -> tuple[int, int]:
        """The lowest and the highest key."""
        first, last = int(self.sorted[0]), int(self.sorted[-1])
        bits, key = self.places.bits, self.places.key
        return (first >> bits) + key, (last >> bits) + key

    def find_one(self, wanted: tuple[int, int]) -> tuple[int, int]:
        """Where in the order the tuples from one place to before another begin, and how many there
        are."""
        begin, stop = self.sorted.searchsorted(wanted).tolist()
        return begin, stop - begin

    # --- what is gone ----------------------------------------------------------------------------

    def below(self, limit: int) -> int:
        """How many tuples are below a tick."""
        if len(self) <= _SMALL:
            return int(np.count_nonzero(self.places.below(self.sorted, limit)))
        return int(self._in_time()[0].searchsorted(limit))

    def finish_below(self, limit: Bound) -> Ints:
        """Be done with all rows below a tick; those that this is news of."""
        assert self.done is not None
        if limit > self.highest:
            return self._finish(np.flatnonzero(~self.done))
        if len(self) <= _SMALL:
            rows = self.order[self.places.below(self.sorted, int(limit))]
        else:
            ticks, by_time = self._in_time()
            stop = int(ticks.searchsorted(limit))
            passed, self._passed = self._passed, max(stop, self._passed)
            rows = by_time[passed:stop]
        return self._finish(rows[~self.done[rows]])

    def _in_time(self) -> tuple[Ints, Ints]:
        """Ticks in order, and the rows that have them."""
        if self._by_time is None:
            ticks = self.ticks
            order = stable_order(ticks)
            self._by_time = ticks[order], self.order[order]
        return self._by_time

    def finish(self, rows: Ints) -> Ints:
        """Be done with rows; those that this is news of, each once."""
        assert self.done is not None
        return self._finish(np.unique(rows[~self.done[rows]]))

    def _finish(self, fresh: Ints) -> Ints:
        assert self.done is not None
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
            gathered_rows(self.rows, rows),
            np.arange(len(rows)),
            self.places,
            places,
            *extremes(self.places.ticks(places)),
            None if self.signs is None else self.signs[rows],
            None if self.lineage is None else self.lineage[rows],
            number=number,
        )
        return run if self.done is None else run.with_done(self.done[rows])

    def recoded(self, place: Codes, like: KeyTimePlaces | None) -> SortedRun:
        """The same with other codes for keys, which are in the same order."""
        codes, ticks = place[self.codes], self.ticks
        places = KeyTimePlaces.of_tuples(codes, ticks, like)
        return replace(self, places=places, sorted=places.of(codes, ticks), _keys=None)


class Finding(NamedTuple):
    """Which tuples have partners, where in the order of a run these begin, and how many."""

    of: Ints
    begins: Ints
    counts: Ints


def _together(several: Sequence[SortedRun], times: tuple[int, int]) -> tuple[KeyTimePlaces, Ints]:
    """The places of the tuples of some runs, one after the other."""
    last = several[-1].places
    if last.is_plain and all(run.places is last for run in several):
        return last, np.concatenate([run.sorted for run in several])
    codes = np.concatenate([run.codes for run in several])
    ticks = np.concatenate([run.ticks for run in several])
    places = KeyTimePlaces.between_ends(extremes(codes), times, codes, ticks, last)
    return places, places.of(codes, ticks)
