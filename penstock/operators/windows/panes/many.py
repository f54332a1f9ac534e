"""Many panes at once: the groups of all panes of a batch, numbered together.

A pane of its own has room for every group, so one with few of many groups costs more than its
tuples, and so does a window.  Here a batch makes one piece, in which every pane has just the groups
that it has tuples of; windows leave it without panes of their own: tumbling ones, which are panes,
and sliding ones of few panes, all at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.first_rows import first_rows
from penstock.model.punctuation import END, Bound
from penstock.model.stable_order import stable_order
from penstock.model.types import INT64_MAX
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.windows.panes.contents import Panes
from penstock.operators.windows.panes.partial import PartialPanes
from penstock.operators.windows.panes.shape import PaneShape

_ENOUGH = 8  # panes of a batch that are worth it
_ONE = PaneShape(1, 1)  # where windows are panes


class FoldedPanes(NamedTuple):
    """Groups of panes, and a partial result for each."""

    panes: Ints
    codes: Codes
    partials: Partials


@dataclass
class ManyPanes:
    folder: Folder
    pieces: list[FoldedPanes]
    shape: PaneShape = _ONE

    def worth_it(self, rows: int, first: int, last: int) -> bool:
        """Whether so many rows, or partial results, cost less here than as panes: every window is
        merged from each of its panes, but has no room for groups without tuples."""
        if last - first < _ENOUGH or self.shape == _ONE:
            return last - first >= _ENOUGH
        merged = rows * -(-self.shape.per_window // self.shape.per_slide) * self.shape.per_window
        return merged < (last - first) * len(self.folder.keys)

    @property
    def pays(self) -> bool:
        """The same of all that is here."""
        found = self.bounds()
        rows = sum(len(piece.panes) for piece in self.pieces)
        return self.shape == _ONE or (found is not None and self.worth_it(rows, *found))

    def add(self, panes: Ints, codes: Codes, partials: Partials) -> None:
        """Partial results of groups of panes, each of which is there once."""
        self.pieces.append(FoldedPanes(panes, codes, partials))

    def takes(self, made: PartialPanes, codes: Codes) -> bool:
        """Whether panes that were begun elsewhere have been taken as they are."""
        if not len(made) or (made.places != made.places[0]).any():
            return False
        if not self.worth_it(len(made), int(made.panes[0]), int(made.panes[-1])):
            return False
        self.add(made.panes, codes, made.partials)
        return True

    def take_from(self, panes: Panes, most: int, released: int | None) -> bool:
        """Take in panes of their own, unless they are more; whether it was done.  Some may be left
        of windows below `released`."""
        given = panes.numbered()
        if len(given) > most:
            return False
        for number, pane in given:
            panes.drop(number)
            if released is None or self.shape.windows_of(number)[1] >= released:
                codes = np.flatnonzero(pane.rows.rows)
                self.add(np.full(len(codes), number), codes, self.folder.take(pane, codes))
        return True

    def fold(self, rows: Rows, panes: Ints) -> None:
        own, numbers = first_rows(self._pairs(panes, rows.codes))
        partials = self.folder.folded(replace(rows, codes=numbers), len(own))
        self.pieces.append(FoldedPanes(panes[own], rows.codes[own], partials))

    def _pairs(self, panes: Ints, codes: Codes) -> Ints:
        """A number for every group of a pane."""
        size, lowest = len(self.folder.keys), int(panes.min())
        if (int(panes.max()) - lowest + 1) * size > INT64_MAX:
            return first_rows(panes)[1] * size + codes
        return (panes - lowest) * size + codes

    def windows(self, released: int | None, last: Bound) -> FoldedPanes | None:
        """The groups of windows up to the last one, window by window, each in the order of their
        keys; those below `released` have been given out.  Panes that are part of no later window
        are gone then."""
        if self.shape == _ONE:
            return self.take(last)
        if not self.pieces:
            return None
        piece = self.pieces[0] if len(self.pieces) == 1 else self._united(self.pieces)
        stop = (piece.panes + self.shape.per_window) // self.shape.per_slide
        later = np.flatnonzero(stop > last + 1)
        self.pieces = [self._some(piece, later)] if len(later) else []
        begin = piece.panes // self.shape.per_slide
        if released is not None:
            begin = np.maximum(begin, released)
        return self._merged(piece, begin, stop if last == END else np.minimum(stop, int(last) + 1))

    def _merged(self, piece: FoldedPanes, begin: Ints, stop: Ints) -> FoldedPanes | None:
        """The windows that panes are part of, from `begin` to before `stop`."""
        sizes = np.maximum(stop - begin, 0)
        places = np.repeat(np.arange(len(sizes)), sizes)
        if not len(places):
            return None
        windows = (
            begin[places] + np.arange(len(places)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        )
        own, numbers = first_rows(self._pairs(windows, piece.codes[places]))
        # a window has one pane at each distance from its end, so these do not meet each other
        distance = (windows + 1) * self.shape.per_slide - 1 - piece.panes[places]
        merged: Partials | None = None
        for each in range(self.shape.per_window - 1, -1, -1):
            which = np.flatnonzero(distance == each)
            if len(which):
                some = self.folder.take_apart(piece.partials, places[which])
                spread = self.folder.spread_apart(some, numbers[which], len(own))
                if merged is None:
                    merged = spread
                else:
                    self.folder.merge_apart(merged, spread)
        assert merged is not None
        return self._in_order(FoldedPanes(windows[own], piece.codes[places[own]], merged))

    def take(self, last: Bound) -> FoldedPanes | None:
        """The groups of panes up to the last one, pane by pane, each in the order of their keys;
        they are gone then."""
        taken, left = [], []
        for piece in self.pieces:
            upto: Mask = piece.panes <= last
            if upto.all():
                taken.append(piece)
                continue
            left.append(self._some(piece, np.flatnonzero(~upto)))
            if upto.any():
                taken.append(self._some(piece, np.flatnonzero(upto)))
        self.pieces = left
        if not taken:
            return None
        return self._in_order(taken[0] if len(taken) == 1 else self._united(taken))

    def _in_order(self, found: FoldedPanes) -> FoldedPanes:
        order = self.folder.keys.order_of(found.codes)
        order = order[stable_order(found.panes[order])]
        return self._some(found, order)

    def _some(self, piece: FoldedPanes, places: Ints) -> FoldedPanes:
        partials = self.folder.take_apart(piece.partials, places)
        return FoldedPanes(piece.panes[places], piece.codes[places], partials)

    def _united(self, pieces: list[FoldedPanes]) -> FoldedPanes:
        panes = np.concatenate([piece.panes for piece in pieces])
        codes = np.concatenate([piece.codes for piece in pieces])
        own, numbers = first_rows(self._pairs(panes, codes))
        begin = 0
        united: Partials | None = None
        for piece in pieces:
            end = begin + len(piece.panes)
            spread = self.folder.spread_apart(piece.partials, numbers[begin:end], len(own))
            if united is None:
                united = spread
            else:
                self.folder.merge_apart(united, spread)
            begin = end
        assert united is not None
        return FoldedPanes(panes[own], codes[own], united)

    def move_to(self, panes: Panes) -> None:
        """Make panes of their own of all of them."""
        for piece in self.pieces:
            order = stable_order(piece.panes)
            cuts = np.flatnonzero(np.diff(piece.panes[order])) + 1
            for places in np.split(order, cuts):
                own = self._some(piece, places)
                pane = panes.open(int(own.panes[0]))
                self.folder.merge(pane, self.folder.spread(own.partials, own.codes))
        self.pieces = []

    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest pane."""
        if not self.pieces:
            return None
        lowest = min(int(piece.panes.min()) for piece in self.pieces)
        return lowest, max(int(piece.panes.max()) for piece in self.pieces)

    def spans(self) -> list[tuple[int, int]]:
        """From the first window to behind the last one that the panes are part of."""
        found = self.bounds()
        if found is None:
            return []
        return [(self.shape.windows_of(found[0])[0], self.shape.windows_of(found[1])[1] + 1)]

    def mark(self, live: Mask) -> None:
        for piece in self.pieces:
            live[piece.codes] = True

    def renumber(self, place: Codes) -> None:
        self.pieces = [piece._replace(codes=place[piece.codes]) for piece in self.pieces]
