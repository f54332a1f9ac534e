"""Sorted runs of the tuples of one input of a join, and what they are made of: gathering rows by
number, tuples with key codes and ticks, and packed places of key and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import arrow, fixed_width
from penstock.kernel.batch import Signs, taken_columns
from penstock.model.arrays import Codes, Ints, Mask, extremes, stable_order
from penstock.model.punctuation import Bound
from penstock.model.types import INT64_MAX, INT64_MIN

# Rows gathered from batches by their numbers.
#
# Joins take a few rows of many columns from several batches again and again.  For columns of fixed
# width without NULLs, NumPy needs a fraction of the time of a call of Arrow; for many rows it takes
# longer, because it allocates its memory afresh.

_TAKE = arrow("take", pc.TakeOptions(boundscheck=False))
_FEW_ROWS = 1 << 14  # rows up to which NumPy is used
_FIXED: dict[type[pa.Array], np.dtype[Any]] = {
    pa.Int32Array: np.dtype(np.int32),
    pa.Int64Array: np.dtype(np.int64),
    pa.DoubleArray: np.dtype(np.float64),
    pa.Date32Array: np.dtype(np.int32),
    pa.TimestampArray: np.dtype(np.int64),
    pa.DurationArray: np.dtype(np.int64),
}


def gathered_rows(batch: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
    columns = gathered_columns([(batch, numbers)])
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def gathered_columns(
    parts: Sequence[tuple[pa.RecordBatch, Ints]], which: Sequence[int] | None = None
) -> list[pa.Array]:
    """Gather columns, selected ones or all, of rows of several batches of one schema, one after
    the other.

    >>> batch = pa.record_batch({"n": [1, 2, None], "s": ["a", "b", "c"]})
    >>> parts = [(batch, np.array([2, 0])), (batch.slice(1), np.array([0]))]
    >>> [column.to_pylist() for column in gathered_columns(parts)]
    [[None, 1, 2], ['c', 'a', 'b']]
    """
    if sum(len(rows) for _, rows in parts) > _FEW_ROWS:
        found = [taken_columns(batch, rows, which) for batch, rows in parts]
        if len(found) == 1:
            return found[0]
        return [pa.concat_arrays(pieces) for pieces in zip(*found, strict=True)]
    places = range(parts[0][0].num_columns) if which is None else which
    return [_gathered([(batch.column(place), rows) for batch, rows in parts]) for place in places]


def _gathered(parts: list[tuple[pa.Array, Ints]]) -> pa.Array:
    first = parts[0][0]
    dtype = _FIXED.get(type(first))
    if dtype is None or any(column.null_count for column, _ in parts):
        found = [_TAKE(column, pa.array(rows)) for column, rows in parts]
        return found[0] if len(found) == 1 else pa.concat_arrays(found)
    values = [fixed_width(column, dtype).take(rows) for column, rows in parts]
    whole = values[0] if len(values) == 1 else np.concatenate(values)
    return pa.Array.from_buffers(first.type, len(whole), [None, pa.py_buffer(whole)], 0)


# Arriving tuples of a join, with their key codes, ticks, signs and lineage.

Beside = TypeVar("Beside", Ints, Mask)


@dataclass(frozen=True, slots=True)
class Tuples:
    """Rows with the code of their key and the tick of their time.

    Signs and lineage are present if tuples may be retracted. `done` is present where tuples are
    emitted alone if they find no partner: it marks those that are done with, because they have
    found a partner or been emitted.
    """

    rows: pa.RecordBatch
    codes: Codes
    ticks: Ints
    signs: Signs | None = None
    lineage: Ints | None = None
    done: Mask | None = None

    def __len__(self) -> int:
        return len(self.ticks)

    def take(self, which: Ints) -> Tuples:
        return Tuples(
            gathered_rows(self.rows, which),
            self.codes[which],
            self.ticks[which],
            None if self.signs is None else self.signs[which],
            None if self.lineage is None else self.lineage[which],
            None if self.done is None else self.done[which],
        )

    def only(self, which: Mask | None) -> Tuples:
        """Select tuples by a mask; None stands for all."""
        return self if which is None or which.all() else self.take(np.flatnonzero(which))

    def with_done(self, done: Mask) -> Tuples:
        return replace(self, done=done)

    @staticmethod
    def joined(several: Sequence[Tuples]) -> Tuples:
        if len(several) == 1:
            return several[0]
        return Tuples(
            pa.concat_batches([each.rows for each in several]),
            np.concatenate([each.codes for each in several]),
            np.concatenate([each.ticks for each in several]),
            joined_signs([(each.signs, len(each)) for each in several]),
            joined_if_any([each.lineage for each in several]),
            joined_if_any([each.done for each in several]),
        )


def joined_signs(several: Sequence[tuple[Signs | None, int]]) -> Signs | None:
    """Concatenate signs, each with the number of its tuples; None if all are positive."""
    if all(signs is None for signs, _ in several):
        return None
    return np.concatenate([all_positive(size) if s is None else s for s, size in several])


def joined_if_any(several: Sequence[Beside | None]) -> Beside | None:
    """Concatenate arrays parallel to rows, or return None if there are none."""
    known = [each for each in several if each is not None]
    return np.concatenate(known) if known else None


def all_positive(size: int) -> Signs:
    return np.ones(size, np.int8)


# Key and time packed into one number, the place, by which the tuples of a run are sorted.
#
# The key is in the high bits and the time in the low ones, both relative to an origin.  There is
# spare room on all sides, so that the runs of an input share their packing: places can be compared
# directly, and a key and time have the same place in all runs.  Keys or times that are too far
# apart for 64 bits are replaced by their ranks among the known ones.

_ROOM = 61  # bits for key and time; a search may ask for one key or one time beyond
_SPARE = 2  # bits for keys beyond the known ones
_NEAR = 2**61
_FEW_PLACES = 4096  # number of places up to which they are sorted directly


@dataclass(frozen=True, slots=True)
class KeyTimePlaces:
    """Packing of key and time into one number.

    >>> places = KeyTimePlaces.of_tuples(np.array([3, 1]), np.array([-5, 90]))
    >>> found = places.of(np.array([3, 1]), np.array([-5, 90]))
    >>> places.codes(found), places.ticks(found)
    (array([3, 1]), array([-5, 90]))
    """

    bits: int  # of the time
    key: int  # from where keys count
    time: int
    keys: Ints | None = None  # all of them, where their numbers stand for them
    times: Ints | None = None

    @staticmethod
    def of_tuples(codes: Codes, ticks: Ints, like: KeyTimePlaces | None = None) -> KeyTimePlaces:
        """Places for these tuples; `like`, if they fit into it."""
        return KeyTimePlaces.between_ends(extremes(codes), extremes(ticks), codes, ticks, like)

    @staticmethod
    def between_ends(
        keys: tuple[int, int],
        times: tuple[int, int],
        codes: Codes,
        ticks: Ints,
        like: KeyTimePlaces | None = None,
    ) -> KeyTimePlaces:
        """Places for tuples whose lowest and highest key and time are known; `like`, if they fit
        into it.
        """
        if like is not None and like.hold(keys, times):
            return like
        span = times[1] - times[0]
        bits = span.bit_length()
        for key in (0, keys[0]):
            for spare in (_SPARE, 0):
                left = _ROOM - spare - _bits(keys, key)
                if bits <= left:
                    around = (1 << left) - 1 - span
                    return KeyTimePlaces(left, key, max(times[0] - around // 2, INT64_MIN))
        if len(codes).bit_length() + bits <= _ROOM:
            return KeyTimePlaces(bits, 0, times[0], keys=np.unique(codes))
        known = np.unique(ticks)
        bits = len(known).bit_length()
        if _bits(keys, 0) + bits <= _ROOM:
            return KeyTimePlaces(bits, 0, 0, times=known)
        return KeyTimePlaces(bits, 0, 0, np.unique(codes), known)

    @property
    def is_plain(self) -> bool:
        return self.keys is None and self.times is None

    def hold(self, keys: tuple[int, int], times: tuple[int, int]) -> bool:
        """Whether tuples with keys and times within these ranges have places."""
        span = 1 << self.bits
        return (
            self.is_plain
            and self.fit(keys)
            and times[0] >= self.time
            and times[1] - self.time < span
        )

    def fit(self, keys: tuple[int, int]) -> bool:
        """Whether keys within this range have places, if keys are not ranked."""
        return _bits(keys, self.key) + self.bits <= _ROOM

    def of(self, codes: Codes, ticks: Ints) -> Ints:
        """Places of tuples."""
        keys = codes - self.key if self.keys is None else np.searchsorted(self.keys, codes)
        times = ticks - self.time if self.times is None else np.searchsorted(self.times, ticks)
        return (keys << self.bits) + times

    def order(self, places: Ints, keys: tuple[int, int], times: tuple[int, int]) -> Ints:
        """Order that sorts the places of tuples, whose keys and times are within these ranges."""
        bits = (times[1] - times[0]).bit_length()
        if not self.is_plain or len(places) <= _FEW_PLACES:
            return np.argsort(places)
        # without the room before all of them, and that between times and keys
        close = (places >> self.bits) - (keys[0] - self.key) << bits
        close += (places & self._last) - (times[0] - self.time)
        return stable_order(close)

    def codes(self, places: Ints) -> Codes:
        keys = places >> self.bits
        return keys + self.key if self.keys is None else self.keys[keys]

    def ticks(self, places: Ints) -> Ints:
        times = places & self._last
        return times + self.time if self.times is None else self.times[times]

    def below(self, places: Ints, tick: int) -> Mask:
        """Select the places with a time below a tick."""
        if self.times is not None or not INT64_MIN <= tick - self.time <= INT64_MAX:
            return self.ticks(places) < tick
        return (places & self._last) < tick - self.time

    @property
    def _last(self) -> int:
        return (1 << self.bits) - 1

    # --- looking for tuples ----------------------------------------------------------------------

    def wanted(self, codes: Codes, lows: Ints, highs: Ints, low: int, high: int) -> WantedPlaces:
        """Range of places for each key and bounds of a time. Keys are in order, and all bounds are
        within `low` and `high`.
        """
        which = self._placed(codes)
        if which is not None:
            codes, lows, highs = codes[which], lows[which], highs[which]
        keys = codes - self.key if self.keys is None else np.searchsorted(self.keys, codes)
        begin = keys << self.bits
        if self.times is not None:
            first = begin + np.searchsorted(self.times, lows)
            last = begin + np.searchsorted(self.times, highs, side="right") - 1
            return WantedPlaces(self, which, codes, first, last)
        if self.time - low > _NEAR or high - self.time > _NEAR:
            # no difference is taken before both sides are near
            furthest = min(self.time + self._last + 1, INT64_MAX), max(self.time - 1, INT64_MIN)
            lows, highs = np.minimum(lows, furthest[0]), np.maximum(highs, furthest[1])
            lows, highs = np.maximum(lows, self.time), np.minimum(highs, furthest[0])
        first = begin + np.maximum(lows - self.time, 0)
        last = begin + np.minimum(highs - self.time, self._last)
        return WantedPlaces(self, which, codes, first, last)

    def _placed(self, codes: Codes) -> Ints | None:
        """Indices of the keys that have places; None if all have."""
        if self.keys is not None:
            near = self.keys.take(np.searchsorted(self.keys, codes), mode="clip")
            return np.flatnonzero(near == codes)
        if self.fit((int(codes[0]), int(codes[-1]))):
            return None
        beyond = 1 << _ROOM - self.bits
        begin = codes.searchsorted(max(self.key - beyond + 1, INT64_MIN))
        stop = codes.searchsorted(min(self.key + beyond - 1, INT64_MAX), side="right")
        return np.arange(begin, stop)

    def wanted_one(self, code: int, low: int, high: int) -> tuple[int, int] | None:
        """Range of places, the end excluded, for one key and bounds of a time; None if it is
        empty.
        """
        key = code - self.key
        if self.keys is not None:
            key = int(self.keys.searchsorted(code))
            if key == len(self.keys) or self.keys[key] != code:
                return None
        elif not self.fit((code, code)):
            return None
        first, stop = low - self.time, high - self.time + 1
        if self.times is not None:
            first = int(self.times.searchsorted(low))
            stop = int(self.times.searchsorted(high, side="right"))
        first, stop = max(first, 0), min(stop, self._last + 1)
        begin = key << self.bits
        return (begin + first, begin + stop) if first < stop else None


class WantedPlaces(NamedTuple):
    """Ranges of places to search, both ends included; a range is empty if its end is below its
    begin. `which` has the indices of the tuples that search; None: all that were asked for.
    """

    places: KeyTimePlaces
    which: Ints | None
    codes: Codes
    first: Ints
    last: Ints


def _bits(keys: tuple[int, int], key: int) -> int:
    """Number of bits that keys take, relative to an origin."""
    return max((each - key).bit_length() for each in keys)


# Tuples of one input of a join, sorted by key and time: partners are found by bisection.

_SMALL = 1 << 14  # tuples that are counted rather than sorted
_FEW_TUPLES = 1 << 12  # tuples that it does not pay to leave some out of
_SPARSE = 16  # numbers for each tuple, above which there is no table of keys


@dataclass(eq=False, slots=True)
class SortedRun:
    """Tuples of one input, sorted by key and time; partners are found by bisection.

    Rows stay in arrival order, as do their signs, lineage and `done` flags; `order` has the row
    numbers sorted by key and time, and `sorted` their places.
    """

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
    touched: bool = True  # whether `done` has changed since the last save
    _keys: Mask | None = None
    _by_time: tuple[Ints, Ints] | None = None
    _passed: int = 0  # rows, in the order of time, that all are done with

    @staticmethod
    def of(tuples: Tuples, like: KeyTimePlaces | None = None) -> SortedRun:
        """Sort tuples into a run, with the places `like` if they fit."""
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
        """Find the partners of tuples by the ranges of their places."""
        first, last = wanted.first, wanted.last
        which = self._known(wanted.codes) if len(first) > _FEW_TUPLES else None
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
        """Indices of the tuples whose key may be in the run; None if all."""
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
            self._keys = keys  # assigned when complete: several threads may read it
        known = np.flatnonzero(keys[codes[begin:stop] - lowest])
        return known + begin if begin else known

    @property
    def _ends(self) -> tuple[int, int]:
        """The lowest and the highest key."""
        first, last = int(self.sorted[0]), int(self.sorted[-1])
        bits, key = self.places.bits, self.places.key
        return (first >> bits) + key, (last >> bits) + key

    def find_one(self, wanted: tuple[int, int]) -> tuple[int, int]:
        """Position in the order and number of the tuples in a range of places, the end excluded."""
        begin, stop = self.sorted.searchsorted(wanted).tolist()
        return begin, stop - begin

    # --- what is gone ----------------------------------------------------------------------------

    def below(self, limit: int) -> int:
        """Number of tuples below a tick."""
        if len(self) <= _SMALL:
            return int(np.count_nonzero(self.places.below(self.sorted, limit)))
        return int(self._in_time()[0].searchsorted(limit))

    def finish_below(self, limit: Bound) -> Ints:
        """Mark all rows below a tick as done with; return those that were not before."""
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
        """Ticks in order, and their rows."""
        if self._by_time is None:
            ticks = self.ticks
            order = stable_order(ticks)
            self._by_time = ticks[order], self.order[order]
        return self._by_time

    def finish(self, rows: Ints) -> Ints:
        """Mark rows as done with; return those that were not before, each once."""
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
        """Select tuples by a mask over the sorted order."""
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
        """Copy of the run with other codes for keys, in the same order."""
        codes, ticks = place[self.codes], self.ticks
        places = KeyTimePlaces.of_tuples(codes, ticks, like)
        return replace(self, places=places, sorted=places.of(codes, ticks), _keys=None)


class Finding(NamedTuple):
    """Indices of the tuples that have partners, where these begin in the order of a run, and their
    counts.
    """

    of: Ints
    begins: Ints
    counts: Ints


def _together(several: Sequence[SortedRun], times: tuple[int, int]) -> tuple[KeyTimePlaces, Ints]:
    """Places of the tuples of several runs, one run after the other."""
    last = several[-1].places
    if last.is_plain and all(run.places is last for run in several):
        return last, np.concatenate([run.sorted for run in several])
    codes = np.concatenate([run.codes for run in several])
    ticks = np.concatenate([run.ticks for run in several])
    places = KeyTimePlaces.between_ends(extremes(codes), times, codes, ticks, last)
    return places, places.of(codes, ticks)
