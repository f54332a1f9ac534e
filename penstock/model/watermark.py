"""How far a stream has come: the low-watermark over several origins, and the high-watermark."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush, heapreplace

from penstock.model.punctuation import BEGINNING, END, Bound


class LowWatermark:
    """The minimum over the latest bound of every origin: what all of them together promise.

    Bounds never move back.  An origin that ends no longer holds the others back.

    >>> low = LowWatermark(["A", "B"])
    >>> low.advance("A", 20), low.advance("B", 19), low.advance("B", 22)
    (-inf, 19, 20)
    """

    def __init__(self, origins: list[Hashable] | None = None) -> None:
        self._bounds: dict[Hashable, Bound] = {}
        # A bound that each origin has had, lowest first; what it is now is looked up only when
        # that one has become the lowest of all.
        self._queue: list[tuple[Bound, int, Hashable]] = []
        self._numbers: dict[Hashable, int] = {}  # the entry of each origin there
        self._entries = 0
        self.value: Bound = BEGINNING
        for origin in origins or []:
            self.add(origin)

    def add(self, origin: Hashable) -> Bound:
        """Let a newcomer in.  It joins at the watermark, because that much has been released."""
        if origin not in self._bounds:
            self._bounds[origin] = self.value
            self._numbers[origin] = self._entries
            heappush(self._queue, (self.value, self._entries, origin))
            self._entries += 1
        return self._bounds[origin]

    def advance(self, origin: Hashable, bound: Bound) -> Bound:
        before = self.add(origin)
        if bound > before:
            self._bounds[origin] = bound
            if before == self.value:  # otherwise somebody else holds the others back
                self._settle()
        return self.value

    def _settle(self) -> None:
        while self._queue:
            bound, number, origin = self._queue[0]
            if self._numbers.get(origin) != number:
                heappop(self._queue)  # has left
            elif self._bounds[origin] > bound:
                heapreplace(self._queue, (self._bounds[origin], number, origin))
            else:
                self.value = max(self.value, bound)
                return

    def end(self, origin: Hashable) -> Bound:
        return self.advance(origin, END)

    def leave(self, origin: Hashable) -> Bound:
        """Wait for the others alone; the origin may be added again."""
        del self._bounds[origin], self._numbers[origin]
        self._settle()
        return self.value

    def raise_to(self, bound: Bound) -> Bound:
        """Promise a bound for all origins, and for those to come."""
        for origin in self._bounds:
            self._bounds[origin] = max(self._bounds[origin], bound)
        self.value = max(self.value, bound)
        return self.value

    @property
    def held_back_by(self) -> list[Hashable]:
        """The origins that the watermark waits for."""
        return [origin for origin, bound in self._bounds.items() if bound == self.value]


class HighWatermark:
    """The highest value seen so far."""

    def __init__(self) -> None:
        self.value: Bound = BEGINNING

    def observe(self, value: int) -> Bound:
        self.value = max(self.value, value)
        return self.value
