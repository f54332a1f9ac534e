"""Key and time as one number, in whose order the tuples of a run lie.

The key is in the high bits and the time in the low ones, both counted from somewhere.  Keys or
times that are too far apart for 64 bits go by their numbers among those that there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.windows.columns import extremes

_ROOM = 61  # bits for key and time; what is looked for may be one key or one time beyond
_SPARE = 2  # bits, so that runs can be merged without being numbered anew
_NEAR = 2**61


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
        """Such as others have, if that will do."""
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
        span = times[1] - times[0]
        if like is not None and like.is_plain and span >> like.bits == 0 and like.fit(keys):
            return KeyTimePlaces(like.bits, like.key, times[0])
        bits = span.bit_length()
        for key in (0, keys[0]):
            for spare in (_SPARE, 0):
                if _bits(keys, key) + bits + spare <= _ROOM:
                    return KeyTimePlaces(bits + spare, key, times[0])
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

    def fit(self, keys: tuple[int, int]) -> bool:
        """Whether keys from one to another have places, if they are not numbered."""
        return _bits(keys, self.key) + self.bits <= _ROOM

    def of(self, codes: Codes, ticks: Ints) -> Ints:
        """The places of the tuples themselves."""
        keys = codes - self.key if self.keys is None else np.searchsorted(self.keys, codes)
        times = ticks - self.time if self.times is None else np.searchsorted(self.times, ticks)
        return (keys << self.bits) + times

    def codes(self, places: Ints) -> Codes:
        keys = places >> self.bits
        return keys + self.key if self.keys is None else self.keys[keys]

    def ticks(self, places: Ints) -> Ints:
        times = places & self._last
        return times + self.time if self.times is None else self.times[times]

    @property
    def _last(self) -> int:
        return (1 << self.bits) - 1

    # --- looking for tuples ----------------------------------------------------------------------

    def between(
        self, codes: Codes, lows: Ints, highs: Ints, low: int, high: int
    ) -> tuple[Ints, Ints]:
        """From which place to which, both included, tuples have a key, which some have, and a time
        within bounds; none do where the second is below the first.  No bound is below `low` or
        above `high`."""
        keys = codes - self.key if self.keys is None else np.searchsorted(self.keys, codes)
        begin = keys << self.bits
        if self.times is not None:
            first = np.searchsorted(self.times, lows)
            return begin + first, begin + np.searchsorted(self.times, highs, side="right") - 1
        if self.time - low > _NEAR or high - self.time > _NEAR:
            # no difference is taken before both sides are near
            furthest = min(self.time + self._last + 1, INT64_MAX), max(self.time - 1, INT64_MIN)
            lows, highs = np.minimum(lows, furthest[0]), np.maximum(highs, furthest[1])
            lows, highs = np.maximum(lows, self.time), np.minimum(highs, furthest[0])
        first = begin + np.maximum(lows - self.time, 0)
        return first, begin + np.minimum(highs - self.time, self._last)

    def between_one(self, code: int, low: int, high: int) -> tuple[int, int] | None:
        """From which place to before which tuples have one key; None if there are none."""
        key = code - self.key
        if self.keys is not None:
            key = int(self.keys.searchsorted(code))
            if key == len(self.keys) or self.keys[key] != code:
                return None
        first, stop = low - self.time, high - self.time + 1
        if self.times is not None:
            first = int(self.times.searchsorted(low))
            stop = int(self.times.searchsorted(high, side="right"))
        first, stop = max(first, 0), min(stop, self._last + 1)
        begin = key << self.bits
        return (begin + first, begin + stop) if first < stop else None


def _bits(keys: tuple[int, int], key: int) -> int:
    """How many bits keys take, counted from one."""
    return max((each - key).bit_length() for each in keys)
