"""How far a stream has come: the low-watermark over several origins, and the high-watermark."""

from __future__ import annotations

from collections.abc import Hashable

from penstock.model.punctuation import BEGINNING, END, Bound


class LowWatermark:
    """The minimum over the latest bound of every origin: what all of them together promise.

    Bounds never move back.  An origin that ends no longer holds the others back.

    >>> low = LowWatermark(["A", "B"])
    >>> low.advance("A", 20), low.advance("B", 19), low.advance("B", 22)
    (-inf, 19, 20)
    """

    def __init__(self, origins: list[Hashable] | None = None) -> None:
        self._bounds: dict[Hashable, Bound] = dict.fromkeys(origins or [], BEGINNING)
        self.value: Bound = BEGINNING

    def add(self, origin: Hashable) -> Bound:
        """Let a newcomer in.  It joins at the watermark, because that much has been released."""
        return self._bounds.setdefault(origin, self.value)

    def advance(self, origin: Hashable, bound: Bound) -> Bound:
        before = self.add(origin)
        if bound > before:
            self._bounds[origin] = bound
            if before == self.value:  # otherwise somebody else holds the others back
                self.value = min(self._bounds.values())
        return self.value

    def end(self, origin: Hashable) -> Bound:
        return self.advance(origin, END)

    def leave(self, origin: Hashable) -> Bound:
        """Wait for the others alone; the origin may be added again."""
        left = self._bounds.pop(origin)
        if left == self.value and self._bounds:
            self.value = min(self._bounds.values())
        return self.value

    def raise_to(self, bound: Bound) -> Bound:
        """Promise a bound for all origins, and for those to come."""
        for origin in self._bounds:
            self._bounds[origin] = max(self._bounds[origin], bound)
        self.value = max(self.value, bound)
        return self.value

    @property
    def bounds(self) -> dict[Hashable, Bound]:
        """The latest bound of every origin."""
        return dict(self._bounds)

    def restore(self, bounds: dict[Hashable, Bound], value: Bound) -> None:
        """Go on from bounds and a watermark that there were before."""
        self._bounds, self.value = dict(bounds), value

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
