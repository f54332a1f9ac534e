"""Key and time as one number, in whose order the tuples of a run lie.

The key is in the high bits and the time in the low ones, both counted from somewhere.  There is
room on all sides, so that the runs of an input share their places: they are compared as they are,
and what is looked for lies at the same places in all of them.  Keys or times that are too far apart
for 64 bits go by their numbers among those that there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.stable_order import stable_order
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.windows.columns import extremes

_ROOM = 61  # bits for key and time; what is looked for may be one key or one time beyond
_SPARE = 2  # bits for keys beyond those that there are
_NEAR = 2**61
_FEW = 4096  # places that are sorted as they are


@dataclass(frozen=True, slots=True)
class KeyTimePlaces:
    """
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
        """Those that others have, if that will do."""
        return KeyTimePlaces.between_ends(extremes(codes), extremes(ticks), codes, ticks, like)

    @staticmethod
    def between_ends(
        keys: tuple[int, int],
        times: tuple[int, int],
        codes: Codes,
        ticks: Ints,
        like: KeyTimePlaces | None = None,
    ) -> KeyTimePlaces:
        """For tuples of which the lowest and highest key and time are known."""
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
        """Whether there is a place for tuples with keys and times from one to another."""
        span = 1 << self.bits
        return (
            self.is_plain
            and self.fit(keys)
            and times[0] >= self.time
            and times[1] - self.time < span
        )

    def fit(self, keys: tuple[int, int]) -> bool:
        """Whether keys from one to another have places, if they are not numbered."""
        return _bits(keys, self.key) + self.bits <= _ROOM

    def of(self, codes: Codes, ticks: Ints) -> Ints:
        """The places of the tuples themselves."""
        keys = codes - self.key if self.keys is None else np.searchsorted(self.keys, codes)
        times = ticks - self.time if self.times is None else np.searchsorted(self.times, ticks)
        return (keys << self.bits) + times

    def order(self, places: Ints, keys: tuple[int, int], times: tuple[int, int]) -> Ints:
        """How to sort the places of tuples with keys and times from one to another."""
        bits = (times[1] - times[0]).bit_length()
        if not self.is_plain or len(places) <= _FEW:
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
        """Which have a time below a tick."""
        if self.times is not None or not INT64_MIN <= tick - self.time <= INT64_MAX:
            return self.ticks(places) < tick
        return (places & self._last) < tick - self.time

    @property
    def _last(self) -> int:
        return (1 << self.bits) - 1

    # --- looking for tuples ----------------------------------------------------------------------

    def wanted(self, codes: Codes, lows: Ints, highs: Ints, low: int, high: int) -> WantedPlaces:
        """Where tuples have a key and a time within bounds.  Keys are in order, and no bound is
        below `low` or above `high`."""
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
        """Which keys have places; None if all."""
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
        """From which place to before which tuples have one key; None if there are none."""
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
    """From which place to which, both included, tuples are looked for; there is none where the
    second is below the first.  `which` says for whom, None: for all that have been asked about."""

    places: KeyTimePlaces
    which: Ints | None
    codes: Codes
    first: Ints
    last: Ints


def _bits(keys: tuple[int, int], key: int) -> int:
    """How many bits keys take, counted from one."""
    return max((each - key).bit_length() for each in keys)
