"""Open windows in a form from which every algorithm of sliding windows can continue: pieces, their
export from panes, windows and tuples, and adopted pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.kernel.grouping.folding import Folder, Partials, Rows, mark_groups
from penstock.kernel.groups.group_by import ClosedGroups
from penstock.kernel.state import ChunkStore, Tree, required
from penstock.kernel.windows.panes import BlockContents, LatePanes, Panes, PaneShape, pane_shape
from penstock.kernel.windows.results import Results
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.window_kinds import Sliding

# Pieces.
#
# Tuples cannot be recovered from panes, nor panes from windows.  But a tuple, a pane and a window
# are all a partial result that counts in every window from one to another: a *piece*. Pieces name
# no class and no number that only one operator knows.
#
# Two things are not in them, because they follow from the input.  Progress closes the same windows
# again.  And windows that single groups have emitted ahead of the stream are cut off the pieces of
# these groups; a later tuple of theirs carries the bound that it broke.


@dataclass(frozen=True, slots=True)
class Piece:
    """Partial results that count in the windows from `first` to `last`, as `Folder.save` has them;
    their codes are places among the keys of all pieces."""

    first: int
    last: int
    partials: Tree


@dataclass(frozen=True, slots=True, eq=False)
class OpenPieces:
    """Open windows of an operator as pieces.

    `keys` are those of the groups of all pieces, column by column; without columns there is one
    group.  No piece reaches below `released`, the first window that has not been emitted, as far as
    that is known; `highest` is the highest one that had results.
    """

    groups: int
    keys: tuple[pa.Array, ...]
    pieces: tuple[Piece, ...]
    released: Bound
    highest: int | None

    def save(self) -> Tree:
        pieces = [[piece.first, piece.last, piece.partials] for piece in self.pieces]
        registers = {"released": self.released, "highest": self.highest}
        return {"groups": self.groups, "keys": list(self.keys), "pieces": pieces, **registers}

    @staticmethod
    def load(saved: Tree) -> OpenPieces:
        pieces = tuple(Piece(first, last, partials) for first, last, partials in saved["pieces"])
        keys = tuple(saved["keys"])
        return OpenPieces(saved["groups"], keys, pieces, saved["released"], saved["highest"])


# Export: from the state of an algorithm to pieces.


def exported(
    folder: Folder, kept: Iterable[LatePanes], released: Bound | None, results: Results
) -> OpenPieces:
    """Pieces with the keys of the groups instead of their numbers."""
    kept = list(kept)
    used = np.unique(np.concatenate([each.codes for each in kept] or [np.zeros(0, np.int64)]))
    place = np.zeros(max(1, len(folder.keys)), np.int64)
    place[used] = np.arange(len(used))
    pieces = tuple(
        Piece(each.first, each.last, folder.save(each.partials, place[each.codes])) for each in kept
    )
    keys = tuple(folder.keys.take(used))
    from_ = BEGINNING if released is None else released
    return OpenPieces(len(used), keys, pieces, from_, results.save())


def pieces_of_panes(
    folder: Folder, panes: Panes, late: Iterable[LatePanes], shape: PaneShape, released: Bound
) -> Iterator[LatePanes]:
    """Panes and late tuples, as far as they are in windows from `released` on."""
    for number, pane in panes.numbered():
        yield from _from(released, _piece(folder, pane, *shape.windows_of(number)))
    for each in late:
        yield from _from(released, each)


def pieces_of_windows(folder: Folder, windows: Panes) -> Iterator[LatePanes]:
    for wid, content in windows.numbered():
        yield _piece(folder, content, wid, wid)


def pieces_of_rows(
    folder: Folder, rows: Rows, first: Ints, last: Ints, released: Bound
) -> Iterator[LatePanes]:
    """Tuples, folded as far as they are in the same windows from `released` on."""
    if released == END:
        return
    if released != BEGINNING:
        first = np.maximum(first, int(released))
    order = np.lexsort((first, last))
    order = order[first[order] <= last[order]]
    rows, first, last = rows.take(order), first[order], last[order]
    cuts = np.flatnonzero((np.diff(first) != 0) | (np.diff(last) != 0)) + 1
    for begin, end in pairwise([0, *cuts.tolist(), len(order)] if len(order) else ()):
        own = rows.slice(begin, end)
        codes, groups = np.unique(own.codes, return_inverse=True)
        partials = folder.folded(replace(own, codes=groups), len(codes))
        yield LatePanes(int(first[begin]), int(last[begin]), codes, partials)


def not_given(
    folder: Folder, kept: Iterable[LatePanes], closed: ClosedGroups
) -> Iterator[LatePanes]:
    """Cut off the windows that groups have emitted ahead of the others."""
    for piece in kept:
        first = closed.first_open(piece.first, piece.codes)
        for each in np.unique(first[first <= piece.last]).tolist():
            own = np.flatnonzero(first == each)
            partials = folder.take_apart(piece.partials, own)
            yield LatePanes(each, piece.last, piece.codes[own], partials)


def _piece(folder: Folder, partials: Partials, first: int, last: int) -> LatePanes:
    codes = np.flatnonzero(partials.rows.rows)
    return LatePanes(first, last, codes, folder.take(partials, codes))


def _from(released: Bound, piece: LatePanes) -> Iterator[LatePanes]:
    first = piece.first if piece.first >= released else int(min(released, piece.last + 1))
    if first <= piece.last and len(piece.codes):
        yield piece._replace(first=first)


# Adopted pieces: the contents of windows that come from them, until these windows close.
#
# Pieces that are in the windows of a pane are equivalent to that pane, whichever algorithm made
# them; others are kept like late tuples.  When the windows have closed that were open at the
# exchange, no piece is left.


def taken_in(state: OpenPieces, folder: Folder, panes: Panes, shape: PaneShape) -> list[LatePanes]:
    """Merge the pieces that are equivalent to a pane into `panes`; return the others."""
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
    """Pieces that an operator has adopted, and their share of the contents of windows.

    Windows are asked for in their order, and never below what has been passed.  Nothing is ever
    subtracted here: a user's state that was subtracted from could not be saved any more.
    """

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
        """Bound on the windows of pieces: none is in a lower window."""
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
        """Content of a window that comes from the pieces, which the caller may add to; None if no
        piece is left at all."""
        if not self:
            return None
        content = self._contents.of(*self._shape.panes_of(window))
        for each in self._late:
            if each.first <= window <= each.last:
                self._folder.merge(content, self._folder.spread(each.partials, each.codes))
        return content

    def pass_(self, released: Bound) -> None:
        """Drop the pieces that are only in windows before this one."""
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
        """Write the pieces; they only become fewer, so the late ones are written once."""
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
