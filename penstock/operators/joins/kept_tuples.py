"""Tuples that are kept as they came, under numbers that rise: some are taken, some are forgotten.

They lie in pieces, each about twice as long as the one behind it: so there are few, and a tuple is
moved now and then.  A piece is a chunk; which of its tuples are gone is another, and small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.state.chunks import ChunkStore, required

_PART = 8  # of what is kept, from which on it is cheaper to have it in one piece
_LARGEST = 1 << 20  # tuples of a piece that is not merged with others for the sake of order
_SPARSE = 8  # places that a table may have for each tuple
_SMALL = 64  # tuples of a piece that need not be made shorter


@dataclass(slots=True)
class _Piece:
    number: int  # among all pieces that there ever were
    numbers: Ints  # of the tuples, ascending
    rows: pa.RecordBatch
    gone: Mask
    marked: Mask
    left: int  # tuples that are not gone
    changed: bool = field(default=True)  # flags, since the last save
    table: Ints | None = None  # by number, from the first on: where it is; once it is asked for

    def __len__(self) -> int:
        return len(self.numbers)

    def places(self, numbers: Ints) -> Ints:
        first, size = int(self.numbers[0]), len(self.numbers)
        span = int(self.numbers[-1]) - first + 1
        if span == size:  # without gaps
            return numbers - first
        if span > _SPARSE * size:
            return np.searchsorted(self.numbers, numbers)
        if self.table is None:
            self.table = np.zeros(span, np.int64)
            self.table[self.numbers - first] = np.arange(size)
        places: Ints = self.table[numbers - first]
        return places

    def kept(self) -> tuple[Ints, pa.RecordBatch, Mask]:
        if self.left == len(self):
            return self.numbers, self.rows, self.marked
        stay = np.flatnonzero(~self.gone)
        return self.numbers[stay], self.rows.take(pa.array(stay)), self.marked[stay]


class KeptTuples:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._pieces: list[_Piece] = []
        self._made = 0  # pieces that there ever were
        self._next = 0  # the number of the next tuple
        self._stored: set[int] = set()

    def __len__(self) -> int:
        return sum(piece.left for piece in self._pieces)

    def add(self, rows: pa.RecordBatch) -> Ints:
        """The numbers of the rows from now on."""
        size = rows.num_rows
        numbers = np.arange(self._next, self._next + size)
        self._next += size
        if not size:
            return numbers
        parts = [(numbers, rows, np.zeros(size, np.bool_))]
        while self._pieces and self._pieces[-1].left < 2 * size <= _LARGEST:
            parts.insert(0, self._pieces.pop().kept())
            size += len(parts[0][0])
        self._append(parts)
        return numbers

    def _append(self, parts: list[tuple[Ints, pa.RecordBatch, Mask]]) -> None:
        if len(parts) == 1:
            numbers, rows, marked = parts[0]
        else:
            numbers = np.concatenate([each for each, _, _ in parts])
            rows = pa.concat_batches([each for _, each, _ in parts])
            marked = np.concatenate([each for _, _, each in parts])
        size = len(numbers)
        self._made += 1
        gone = np.zeros(size, np.bool_)
        self._pieces.append(_Piece(self._made, numbers, rows, gone, marked, size))

    # --- some of them ----------------------------------------------------------------------------

    def columns(self, numbers: Ints, which: Sequence[int] | None = None) -> list[pa.Array]:
        """Some columns, or all, of tuples that are kept; NULL for a number below 0."""
        which = range(len(self._schema)) if which is None else which
        missing = numbers < 0
        if missing.all():
            return [pa.nulls(len(numbers), self._schema.types[each]) for each in which]
        if len(self._pieces) > 1 and len(numbers) * _PART >= len(self):
            parts = [piece.kept() for piece in self._pieces]
            self._pieces = []
            self._append(parts)
        if len(self._pieces) == 1:
            rows = self._pieces[0].rows
            known = np.where(missing, self._pieces[0].numbers[0], numbers)
            places = self._pieces[0].places(known)
        else:
            rows, places = self._gathered(numbers, which)
            which = range(len(which))
        indices = pa.array(places, mask=missing) if missing.any() else pa.array(places)
        return [rows.column(each).take(indices) for each in which]

    def _gathered(self, numbers: Ints, which: Sequence[int]) -> tuple[pa.RecordBatch, Ints]:
        """The tuples of several pieces, and where each is among them."""
        places = np.zeros(len(numbers), np.int64)
        taken, size = [], 0
        for piece, own in self._by_piece(numbers):
            rows = piece.rows.select(list(which)).take(pa.array(piece.places(numbers[own])))
            places[own] = np.arange(size, size + len(own))
            taken.append(rows)
            size += len(own)
        return pa.concat_batches(taken), places

    def _by_piece(self, numbers: Ints) -> Iterator[tuple[_Piece, Ints]]:
        """The pieces that have some of the tuples, and which."""
        if not len(numbers):
            return
        if len(self._pieces) == 1 and int(numbers.min()) >= 0:
            yield self._pieces[0], np.arange(len(numbers))
            return
        starts = np.array([piece.numbers[0] for piece in self._pieces])
        of = np.searchsorted(starts, numbers, "right") - 1
        for place, piece in enumerate(list(self._pieces)):
            own = np.flatnonzero(of == place)
            if len(own):
                yield piece, own

    def mark(self, numbers: Ints) -> None:
        for piece, own in self._by_piece(numbers):
            piece.marked[piece.places(numbers[own])] = True
            piece.changed = True

    def marked(self, numbers: Ints) -> Mask:
        found = np.zeros(len(numbers), np.bool_)
        for piece, own in self._by_piece(numbers):
            found[own] = piece.marked[piece.places(numbers[own])]
        return found

    def forget(self, numbers: Ints) -> None:
        """Tuples that nobody will ask for again, and that are still kept."""
        for piece, own in self._by_piece(numbers):
            piece.gone[piece.places(numbers[own])] = True
            piece.left -= len(own)
            piece.changed = True
        for place, piece in enumerate(self._pieces):
            if len(piece) > _SMALL and 0 < 2 * piece.left < len(piece):
                numbers_left, rows, marked = piece.kept()
                self._made += 1
                gone = np.zeros(piece.left, np.bool_)
                self._pieces[place] = _Piece(
                    self._made, numbers_left, rows, gone, marked, piece.left
                )
        self._pieces = [piece for piece in self._pieces if piece.left]

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        pieces = {piece.number for piece in self._pieces}
        for number in self._stored - pieces:
            store.drop(f"rows/{number}")
            store.drop(f"flags/{number}")
        for piece in self._pieces:
            if piece.number not in self._stored:
                chunk = {"numbers": piece.numbers, "rows": piece.rows}
                store.put(f"rows/{piece.number}", chunk)
            if piece.changed:
                flags = [np.packbits(each) for each in (piece.gone, piece.marked)]
                store.put(f"flags/{piece.number}", flags)
                piece.changed = False
        self._stored = pieces
        store.put("next", self._next)

    def load(self, store: ChunkStore) -> list[tuple[Ints, pa.RecordBatch]]:
        """The tuples that are kept, with their numbers."""
        self._next = required(store, "next")
        names = [name.split("/") for name in store.names()]
        self._stored = {int(name[1]) for name in names if name[0] == "rows"}
        for number in sorted(self._stored):
            saved = required(store, f"rows/{number}")
            # the columns are the same, but may be called something else by now
            rows = saved["rows"].rename_columns(self._schema.names)
            size = len(saved["numbers"])
            gone, marked = (
                np.unpackbits(each, count=size).astype(np.bool_)
                for each in required(store, f"flags/{number}")
            )
            left = size - int(np.count_nonzero(gone))
            self._pieces.append(
                _Piece(number, saved["numbers"], rows, gone, marked, left, changed=False)
            )
        self._made = max(self._stored, default=0)
        self._pieces.sort(key=lambda piece: int(piece.numbers[0]))
        return [piece.kept()[:2] for piece in self._pieces]
