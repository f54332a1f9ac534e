"""From what an algorithm keeps of open windows to pieces (see `open_pieces.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.groups.closed import ClosedGroups
from penstock.operators.windows.panes.contents import LatePanes, Panes
from penstock.operators.windows.panes.shape import PaneShape
from penstock.operators.windows.pieces.open_pieces import OpenPieces, Piece
from penstock.operators.windows.results import Results


def exported(
    folder: Folder, kept: Iterable[LatePanes], released: Bound | None, results: Results
) -> OpenPieces:
    """With the keys of the groups instead of their numbers."""
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
    """Without the windows that groups have given out ahead of the others."""
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
