"""Which panes make which windows."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from penstock.model.punctuation import Bound
from penstock.windows.sliding import Sliding


class PaneShape(NamedTuple):
    """How many panes a window has, and a slide.

    >>> shape = pane_shape(Sliding(range=10, slide=4))
    >>> shape, shape.panes_of(2), shape.windows_of(7)
    (PaneShape(per_window=5, per_slide=2), (1, 6), (3, 5))
    """

    per_window: int
    per_slide: int

    def panes_of(self, window: int) -> tuple[int, int]:
        """The first pane of a window, and the one after the last."""
        end = (window + 1) * self.per_slide
        return end - self.per_window, end

    def windows_of(self, pane: int) -> tuple[int, int]:
        """The first and the last window that a pane is part of; in a gap, that is none."""
        return pane // self.per_slide, (pane + self.per_window) // self.per_slide - 1

    def pane_in(self, first: int, last: int, released: Bound) -> int | None:
        """A pane that is part of just the windows from `first` to `last`, and perhaps of windows
        below `released`, which nobody will ask for; None if there is none.

        >>> shape = PaneShape(per_window=3, per_slide=1)
        >>> shape.pane_in(5, 7, 5), shape.pane_in(5, 6, 5), shape.pane_in(6, 6, 5)
        (5, 4, None)
        """
        lowest = self.panes_of(last)[0]
        if first > released:
            lowest = max(lowest, first * self.per_slide)
        highest = min(self.panes_of(last + 1)[0], (first + 1) * self.per_slide) - 1
        return highest if lowest <= highest else None


def pane_shape(window: Sliding) -> PaneShape:
    pane = gcd(window.range, window.slide)
    return PaneShape(window.range // pane, window.slide // pane)
