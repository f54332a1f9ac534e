"""Landmark windows (RANGE ALL): everything so far, once per SLIDE from the first tuple on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.model.arrays import Ints
from penstock.windows.category import Category
from penstock.windows.columns import floor_div
from penstock.windows.window import IdRange, Stream, require_positive


@dataclass(frozen=True, slots=True)
class Landmark:
    """Each window contains the one before it; the stream's highest value says which is the last.

    `high` is that value where progress went further than the tuples did.

    >>> Landmark(slide=60).wids_of(65, high=200)
    range(1, 4)
    """

    slide: int
    origin: int = 0

    category: ClassVar[Category] = Category.CONTEXT_FREE

    def __post_init__(self) -> None:
        require_positive("SLIDE", self.slide)

    def bounds(self, w: int) -> tuple[None, int]:
        return None, self.origin + (w + 1) * self.slide

    def closes_at(self, w: int) -> int:
        return self.bounds(w)[1]

    def contains(self, w: int, value: int) -> bool:
        return value < self.bounds(w)[1]

    def wids_of(self, value: int, high: int) -> IdRange:
        """From the window that `value` is the first to need to the one that `high` does."""
        first, last = ((tick - self.origin) // self.slide for tick in (value, high))
        return range(first, last + 1)

    def windows(self, stream: Stream, *, high: int | None = None) -> list[int]:
        if not stream:
            return []
        lowest = min(item.value for item in stream)
        return list(self.wids_of(lowest, _highest(stream, high)))

    def extent(self, w: int, stream: Stream) -> list[int]:
        return [t for t, item in enumerate(stream) if self.contains(w, item.value)]

    def wids(self, t: int, stream: Stream, *, high: int | None = None) -> list[int]:
        return list(self.wids_of(stream[t].value, _highest(stream, high)))

    def first_wid(self, values: Ints) -> Ints:
        """The first window of each value of a column; it is in all the later ones, too."""
        return floor_div(values, plus=-self.origin, by=self.slide)


def _highest(stream: Stream, high: int | None) -> int:
    reached = max(item.value for item in stream)
    return reached if high is None else max(reached, high)
