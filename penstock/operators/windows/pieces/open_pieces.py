"""What is kept of open windows, in a form that all of their algorithms can go on from.

Tuples cannot be had back from panes, nor panes from windows.  But a tuple, a pane and a window are
all a partial result that counts in every window from one to another: a *piece*.  Pieces name no
class and no number that only one operator knows.

Two things are not in them, because they follow from the input.  What progress has closed comes with
the next progress again.  And windows that single groups have given out ahead of the stream are cut
off the pieces of these groups; a later tuple of theirs carries the bound that it broke.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.model.punctuation import Bound
from penstock.state.chunks import Tree


@dataclass(frozen=True, slots=True)
class Piece:
    """Partial results that count in the windows from `first` to `last`, as `Folder.save` has them;
    their codes are places among the keys of all pieces."""

    first: int
    last: int
    partials: Tree


@dataclass(frozen=True, slots=True, eq=False)
class OpenPieces:
    """`keys` are those of the groups of all pieces, column by column; without columns there is one
    group.  No piece reaches below `released`, the first window that has not been given out, as far
    as that is known; `highest` is the highest one that had results."""

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
