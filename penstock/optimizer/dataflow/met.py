"""How much of the windows of others tuples of one input find when they come, alone and together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from penstock.model.arrays import Floats, Mask
from penstock.optimizer.dataflow.encounters import Encounters, evenly

_OTHERS = 17  # rows of numbers that are not used for the encounters

_REMEMBERED = 4096  # tuples of an input


class Met:
    """`bands` says how far the time of one input may be from that of another.  For every tuple that
    is looked at, one time of each other input stands for all that it may have."""

    def __init__(
        self, origin: int, seen: Encounters, bands: Mapping[tuple[int, int], tuple[float, float]]
    ) -> None:
        self._origin = origin
        self._seen = seen
        self._bands = bands
        self._span = cache(self._span_of)
        self._fit = cache(self._fit_of)
        # of very many batches, remembering what is found would take too much room
        few = len(seen.times) <= _REMEMBERED
        self.spans = cache(self._spans_of) if few else self._spans_of
        self.stays = cache(self._stays_of) if few else self._stays_of
        self.always_stays = cache(lambda *given: bool(self.stays(*given).all()))

    def _spans_of(self, members: frozenset[int]) -> Floats:
        """The ticks of some others within the windows of each tuple, multiplied; nothing where they
        do not fit each other."""
        others = sorted(members - {self._origin})
        found: Floats = np.ones(len(self._seen.times))
        for place, each in enumerate(others):
            found = found * self._span(each)[0]
            for before in others[:place]:
                found = found * self._fit(before, each)
        return found

    def spans_with(self, members: frozenset[int], own: int, other: int) -> Floats:
        """The same with one more, which is looked up by the time of one of them alone."""
        return self.spans(members) * self._within(self._time(own), own, other)[0]

    def _stays_of(self, each: int, other: int, part: frozenset[int]) -> Mask:
        """Whether a tuple of another input may come that fits one that has come.  It comes as a
        part of what some inputs have in common, so its time may be as far below what any of them
        has promised as they may be apart."""
        promised = np.minimum.reduce(
            [
                self._seen.promised[of] - (0.0 if of == other else self._bands[other, of][1])
                for of in part
            ]
        )
        found: Mask = self._time(each) + self._bands[each, other][1] >= promised
        return found

    def _time(self, number: int) -> Floats:
        return self._seen.times if number == self._origin else self._span(number)[1]

    def _span_of(self, number: int) -> tuple[Floats, Floats]:
        return self._within(self._seen.times, self._origin, number)

    def _within(self, times: Floats, own: int, number: int) -> tuple[Floats, Floats]:
        """How many ticks of an input have come within a window, and one of them."""
        low, high = self._bands[own, number]
        begins = np.maximum(times + low, self._seen.begins[number])
        ends = np.minimum(times + high, self._seen.reached[number])
        found = np.maximum(ends - begins + 1, 0.0)
        return found, begins + found * evenly(_OTHERS + number, len(times))

    def _fit_of(self, one: int, other: int) -> Floats:
        """Of two others."""
        low, high = self._bands[one, other]
        apart = self._time(other) - self._time(one)
        found: Floats = ((apart >= low - 0.5) & (apart <= high + 0.5)).astype(np.float64)
        return found
