"""What a task says of its sub-sources, as columns: there may be as many as it has rows."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.promises.by_sub_source import NOTHING
from penstock.state.chunks import Tree


@dataclass(frozen=True, slots=True)
class Moves:
    """The bounds of sub-sources that moved between the first row of one sub-source and that of the
    next, `at` which they are looked at: a newcomer joins at the lowest bound at that moment.  With
    them goes how many tuples SLACK held back then.  What one did comes in its order."""

    places: Ints
    at: Ints
    bounds: Ints
    held: Ints

    @staticmethod
    def joined(parts: list[Moves]) -> Moves:
        if not parts:
            return NO_MOVES
        columns = ("places", "at", "bounds", "held")
        return Moves(*(np.concatenate([getattr(each, c) for each in parts]) for c in columns))


_NONE = np.zeros(0, np.int64)
NO_MOVES = Moves(_NONE, _NONE, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class Reports:
    """The sub-sources of a task, numbered by the order of their first rows."""

    names: pa.Array
    bounds: Ints
    rows: Ints  # how many it had, or at least whether it had any
    sizes: Ints  # how many tuples SLACK holds back of each
    recent: Ints  # all of those
    moves: Moves

    def __len__(self) -> int:
        return len(self.names)

    def without_promises(self) -> Reports:
        """For rows that come in no order: they are there, and that is all."""
        nothing = np.full(len(self), NOTHING)
        return replace(
            self, bounds=nothing, sizes=np.zeros(len(self), np.int64), recent=_NONE, moves=NO_MOVES
        )

    def save(self) -> Tree:
        columns = [self.names, self.bounds, self.rows, self.sizes, self.recent]
        return [*columns, list(astuple(self.moves))]

    @staticmethod
    def load(saved: Tree) -> Reports:
        names, bounds, rows, sizes, recent, moves = saved
        return Reports(names, bounds, rows, sizes, recent, Moves(*moves))
