"""Pieces of time by cell as they are saved, each of them once.

When progress has passed a piece, every filter gets its part of it.  To write what they all have got
would cost as much as there are filters.  So the piece is written, and filters get their parts again
when it is read.  A part that is written itself says up to which piece it has them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate

import numpy as np

from penstock.model.punctuation import Bound
from penstock.operators.windows.shared.pane_part import PanePart
from penstock.state.chunks import ChunkStore, Tree, required

_FEW = 16  # pieces that nobody looks through


class PieceLog:
    """`turn` is how many pieces have been handed over.  Nothing is held here until there has been a
    first save, for which all parts are written themselves."""

    def __init__(self) -> None:
        self.turn = 0
        self.used = False
        self._waiting: dict[int, Tree] = {}  # handed over since the last save, by turn
        self._begins: dict[int, int] = {}  # of all that are needed, in ticks from the origin
        self._gone: list[int] = []
        self._open: set[int] = set()  # pieces of the store that have not been handed over
        self._look_again = _FEW

    def add(self, begin: int, saved: Callable[[], Tree]) -> int:
        """A piece is handed over; its turn."""
        self.turn += 1
        if self.used:
            self._waiting[self.turn] = saved()
            self._begins[self.turn] = begin
        return self.turn

    def begin_anew(self) -> None:
        """All parts will be written themselves."""
        self._gone += self._begins.keys() - self._waiting.keys()
        self._waiting, self._begins = {}, {}

    def forget(self, parts: Sequence[PanePart]) -> None:
        """The pieces of which every part has what it still needs; one looks for them whenever there
        are twice as many as were left the last time."""
        if len(self._begins) < self._look_again:
            return
        by_turn = sorted((part.turn, part.needed_from) for part in parts)
        turns = np.array([turn for turn, _ in by_turn], np.int64)
        lowest: list[Bound] = list(accumulate((needed for _, needed in by_turn), min))
        for turn, begin in list(self._begins.items()):
            without = int(turns.searchsorted(turn))  # parts that were not written since then
            if not without or begin < lowest[without - 1]:
                del self._begins[turn]
                if self._waiting.pop(turn, None) is None:
                    self._gone.append(turn)
        self._look_again = 2 * len(self._begins) + _FEW

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore, touched: Mapping[int, Tree], there: Collection[int]) -> None:
        """With the pieces that have not been handed over: those that tuples came to, and the
        numbers of all of them."""
        for turn, piece in self._waiting.items():
            store.put(f"pieces/{turn}", piece)
        for turn in self._gone:
            store.drop(f"pieces/{turn}")
        for number in self._open.difference(there):
            store.drop(f"open/{number}")
        for number, piece in touched.items():
            store.put(f"open/{number}", piece)
        self._waiting, self._gone, self._open = {}, [], set(there)
        self.used = True

    def load(self, store: ChunkStore, turn: int) -> dict[int, Tree]:
        """All pieces by turn, where parts have had those up to one `turn`.  Those that had not been
        handed over come last: now they are."""
        self.used = True
        names = [name.partition("/") for name in store.names()]
        done = sorted(int(number) for kind, _, number in names if kind == "pieces")
        found = {each: required(store, f"pieces/{each}") for each in done}
        self._begins = {each: _begin(piece) for each, piece in found.items()}
        self.turn = max([turn, *done])
        self._open = {int(number) for kind, _, number in names if kind == "open"}
        for number in sorted(self._open):
            piece = required(store, f"open/{number}")
            found[self.add(_begin(piece), lambda piece=piece: piece)] = piece  # type: ignore[misc]
        return found


def _begin(piece: Tree) -> int:
    return int(piece["number"] * piece["unit"])
