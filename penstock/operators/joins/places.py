"""Key and time as one number, in whose order the tuples of a run lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.windows.columns import extremes

_MOST = 2**62  # of a place
_NEAR = 2**61


class Axis:
    """Numbers as small ones, from 0 on and in the same order: how far they are above the lowest;
    or, where they are too far apart, their number among those that there are."""

    __slots__ = ("highest", "known", "lowest", "size")

    def __init__(self, lowest: int, highest: int) -> None:
        self.lowest, self.highest = lowest, highest
        self.size = highest - lowest + 1
        self.known: Ints | None = None

    def number(self, values: Ints) -> None:
        self.known = np.unique(values)
        self.size = len(self.known)

    def of(self, values: Ints) -> Ints:
        """Of values that are among them."""
        if self.known is not None:
            return np.searchsorted(self.known, values)
        return values - self.lowest

    def first(self, values: Ints) -> Ints:
        """How many of all are below each value."""
        if self.known is not None:
            return np.searchsorted(self.known, values)
        return self._near(values) + (values > self.highest)

    def stop(self, values: Ints) -> Ints:
        """How many are not above it."""
        if self.known is not None:
            return np.searchsorted(self.known, values, side="right")
        return self._near(values) + (values >= self.lowest)

    def _near(self, values: Ints) -> Ints:
        # no difference is taken before both sides are near
        return np.minimum(np.maximum(values, self.lowest), self.highest) - self.lowest

    def first_of(self, value: int) -> int:
        if self.known is not None:
            return int(self.known.searchsorted(value))
        return min(max(value - self.lowest, 0), self.size)

    def stop_of(self, value: int) -> int:
        if self.known is not None:
            return int(self.known.searchsorted(value, side="right"))
        return min(max(value - self.lowest + 1, 0), self.size)


class Places:
    """
    >>> places = Places.of_tuples(np.array([3, 1]), np.array([-5, 90]))
    >>> places.of(np.array([3, 1]), np.array([-5, 90]))
    array([194,  95])
    >>> places.between(np.array([1, 1, 7]), np.array([0, 91, 0]), np.array([90, 99, 99]))
    (array([  5,  96, 296]), array([ 95,  95, 290]))
    """

    __slots__ = ("_stride", "keys", "times")

    def __init__(self, keys: Axis, times: Axis, codes: Codes, ticks: Ints) -> None:
        self.keys, self.times = keys, times
        if (keys.size + 1) * (times.size + 1) > _MOST:
            axes = [(keys, codes), (times, ticks)]
            for axis, values in sorted(axes, key=lambda each: -each[0].size):
                if (keys.size + 1) * (times.size + 1) > _MOST:
                    axis.number(values)
        self._stride = times.size + 1

    @staticmethod
    def of_tuples(codes: Codes, ticks: Ints) -> Places:
        return Places(Axis(*extremes(codes)), Axis(*extremes(ticks)), codes, ticks)

    @staticmethod
    def of_sorted(codes: Codes, ticks: Ints) -> Places:
        """Of tuples in the order of their keys."""
        keys = Axis(int(codes[0]), int(codes[-1]))
        return Places(keys, Axis(*extremes(ticks)), codes, ticks)

    @staticmethod
    def around(several: Sequence[Places], codes: Codes, ticks: Ints) -> Places:
        """For tuples that others have places for."""
        keys, times = (
            Axis(min(each.lowest for each in axes), max(each.highest for each in axes))
            for axes in ([each.keys for each in several], [each.times for each in several])
        )
        return Places(keys, times, codes, ticks)

    def of(self, codes: Codes, ticks: Ints) -> Ints:
        """The places of the tuples themselves."""
        return self.keys.of(codes) * self._stride + self.times.of(ticks)

    def between(self, codes: Codes, lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
        """From which place to which, both included, tuples have a key and a time within bounds;
        none do where the second is below the first."""
        keys, times = self.keys.first(codes), self.times
        begin = keys * self._stride
        first = begin + times.first(lows)
        # a key that is not there ends before it begins
        return first, np.where(self.keys.stop(codes) > keys, begin + times.stop(highs), begin) - 1

    def has_keys(self, codes: Codes) -> Mask:
        """A table of the keys that some tuples have, from the lowest one on."""
        table = np.zeros(self.keys.size, np.bool_)
        table[codes - self.keys.lowest] = True
        return table

    def is_near(self, low: int, high: int) -> bool:
        """Whether no number is left out, and differences to all from `low` to `high` are small."""
        times = self.times
        return (
            self.keys.known is None
            and times.known is None
            and times.lowest - low < _NEAR
            and high - times.lowest < _NEAR
        )

    def between_near(self, codes: Codes, lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
        """`between` for keys that are among those here, and times that are near."""
        begin, lowest = (codes - self.keys.lowest) * self._stride, self.times.lowest
        return (
            begin + np.maximum(lows - lowest, 0),
            begin + np.minimum(highs - lowest, self.times.size - 1),
        )

    def between_one(self, code: int, low: int, high: int) -> tuple[int, int] | None:
        """From which place to before which tuples have one key; None where there are none."""
        key, times = self.keys.first_of(code), self.times
        if self.keys.stop_of(code) <= key:
            return None
        begin = key * self._stride
        first, stop = begin + times.first_of(low), begin + times.stop_of(high)
        return (first, stop) if first < stop else None
