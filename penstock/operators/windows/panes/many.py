"""Many panes at once: the groups of all panes of a batch, numbered together.

A pane of its own has room for every group, so one with few of many groups costs more than its
tuples.  Here a batch makes one piece, in which every pane has just the groups that it has tuples
of; tumbling windows, which are panes, leave it without becoming panes of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.first_rows import first_rows
from penstock.model.punctuation import Bound
from penstock.model.stable_order import stable_order
from penstock.model.types import INT64_MAX
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.windows.panes.contents import Panes

_ENOUGH = 8  # panes of a batch that are worth it


class FoldedPanes(NamedTuple):
    """Groups of panes, and a partial result for each."""

    panes: Ints
    codes: Codes
    partials: Partials


@dataclass
class ManyPanes:
    folder: Folder
    pieces: list[FoldedPanes]

    @staticmethod
    def worth_it(first: int, last: int) -> bool:
        return last - first >= _ENOUGH

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
        found = taken[0] if len(taken) == 1 else self._united(taken)
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

    def mark(self, live: Mask) -> None:
        for piece in self.pieces:
            live[piece.codes] = True

    def renumber(self, place: Codes) -> None:
        self.pieces = [piece._replace(codes=place[piece.codes]) for piece in self.pieces]
