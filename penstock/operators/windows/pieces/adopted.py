"""Pieces that were adopted (see `open_pieces.py`): what windows contain of them until they close.

Pieces that are in the windows of a pane are as good as that pane, whoever made them; others are
kept as late tuples are.  When the windows have closed that were open at the exchange, all of them
are gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.arrays import Codes, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.folding.folder import Folder, Partials
from penstock.operators.folding.key_expiry import mark_groups
from penstock.operators.windows.panes.contents import BlockContents, LatePanes, Panes
from penstock.operators.windows.panes.shape import PaneShape, pane_shape
from penstock.operators.windows.pieces.exporting import pieces_of_panes
from penstock.operators.windows.pieces.open_pieces import OpenPieces
from penstock.state.chunks import ChunkStore, required
from penstock.windows.sliding import Sliding


def taken_in(state: OpenPieces, folder: Folder, panes: Panes, shape: PaneShape) -> list[LatePanes]:
    """Merge the pieces that are as good as a pane into `panes`; the others are given back."""
    code_of = folder.keys.encode(state.keys, state.groups)
    others = []
    for piece in state.pieces:
        places, partials = folder.load_apart(piece.partials)
        pane = shape.pane_in(piece.first, piece.last, state.released)
        if pane is None:
            others.append(LatePanes(piece.first, piece.last, code_of[places], partials))
        else:
            folder.merge(panes.open(pane), folder.spread(partials, code_of[places]))
    return others


class AdoptedPieces:
    """Windows are asked for in their order, and never below what has been passed.  Nothing is ever
    subtracted here: a user's state that was subtracted from could not be saved any more."""

    def __init__(self, folder: Folder, window: Sliding) -> None:
        self._folder = folder
        self._shape = pane_shape(window)
        self._panes = Panes(folder)
        self._contents = BlockContents(folder, self._panes)
        self._late: list[LatePanes] = []
        self._touched = self._stored = False  # whether the late ones were changed, are in a store

    def __bool__(self) -> bool:
        return bool(self._late) or self._panes.lowest() is not None

    def adopt(self, state: OpenPieces) -> None:
        self._late = taken_in(state, self._folder, self._panes, self._shape)
        self._touched = bool(self._late)

    def pieces(self, released: Bound) -> Iterator[LatePanes]:
        return pieces_of_panes(self._folder, self._panes, self._late, self._shape, released)

    # --- windows ---------------------------------------------------------------------------------

    def lowest(self) -> Bound:
        """No piece is in a lower window."""
        return min((first for first, _ in self.spans()), default=END)

    def windows(self, start: Bound, last: Bound) -> list[int]:
        """The windows from `start` to `last` that have pieces."""
        found: list[int] = []
        next_ = start
        for first, stop in sorted(self.spans()):
            begin, end = max(first, next_), min(stop - 1, last)
            if begin <= end:
                found.extend(range(int(begin), int(end) + 1))
                next_ = end + 1
        return found

    def spans(self, released: Bound = BEGINNING) -> Iterator[tuple[int, int]]:
        """The windows of each piece from `released` on: the first, and the one after the last."""
        windows = [self._shape.windows_of(number) for number, _ in self._panes.numbered()]
        for first, last in [*windows, *((each.first, each.last) for each in self._late)]:
            if last >= released:
                yield int(max(first, released)), last + 1

    def of(self, window: int) -> Partials | None:
        """What a window contains of them, to be added to; None if nothing is left at all."""
        if not self:
            return None
        content = self._contents.of(*self._shape.panes_of(window))
        for each in self._late:
            if each.first <= window <= each.last:
                self._folder.merge(content, self._folder.spread(each.partials, each.codes))
        return content

    def pass_(self, released: Bound) -> None:
        """Forget what is only in windows before this one."""
        if not self:
            return
        for number, _ in self._panes.numbered():
            if self._shape.windows_of(number)[1] >= released:
                break
            self._panes.drop(number)
        self._late = [each for each in self._late if each.last >= released]

    # --- state -----------------------------------------------------------------------------------

    def mark(self, live: Mask) -> None:
        for pane in self._panes.all():
            mark_groups(live, pane)
        for each in self._late:
            live[each.codes] = True

    def renumber(self, codes: Codes, place: Codes) -> None:
        def change(partials: Partials) -> Partials:
            return self._folder.take(partials, codes)

        self._panes.renumber(change)
        self._contents.renumber(change)
        self._late = [each._replace(codes=place[each.codes]) for each in self._late]
        self._touched = bool(self._late)

    def save(self, store: ChunkStore) -> None:
        """They only become fewer, so the late ones are written once."""
        self._panes.save(store)
        if self._touched and self._late:
            late = [
                [each.first, each.last, self._folder.save(each.partials, each.codes)]
                for each in self._late
            ]
            store.put("late", late)
            self._stored = True
        elif self._stored and not self._late:
            store.drop("late")
            self._stored = False
        self._touched = False

    def load(self, store: ChunkStore, released: Bound) -> None:
        self._panes.load(store)
        self._stored = "late" in store.names()
        if self._stored:
            for first, last, tree in required(store, "late"):
                codes, partials = self._folder.load_apart(tree)
                self._late.append(LatePanes(first, last, codes, partials))
        self.pass_(released)
