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

    def add(self, origin: Hashable) -> Bound:
        """Let a newcomer in.  It joins at the watermark, because that much has been released."""
        return self._bounds.setdefault(origin, self.value if self._bounds else BEGINNING)

    def advance(self, origin: Hashable, bound: Bound) -> Bound:
        self._bounds[origin] = max(bound, self.add(origin))
        return self.value

    def end(self, origin: Hashable) -> Bound:
        return self.advance(origin, END)

    @property
    def value(self) -> Bound:
        return min(self._bounds.values(), default=BEGINNING)

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
