"""State of operators with several timed inputs: tuples by ascending numbers, tuples sorted by key
and time, and the bounds of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.operator import LateRows, Names, Progress, by_name, by_origin
from penstock.kernel.revisions.amendment import in_time_of
from penstock.kernel.state import ChunkStore, Tree, required
from penstock.model.arrays import Codes, Ints, Mask, extremes
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.ticks import ticks_of
from penstock.model.types import INT64_MAX, INT64_MIN, Type
from penstock.plan.expressions import Column
from penstock.plan.nodes.node import Node
from penstock.plan.physical import Asked

# Tuples that are kept in arrival order under ascending numbers, and read or forgotten by number.
#
# They lie in pieces, each about twice as long as the next: so there are few pieces, and a tuple is
# rarely moved.  A piece is a chunk of state; the flags of its tuples are another, small one.

_PART = 8  # one of so many kept tuples read together make it cheaper to merge all pieces
_LARGEST = 1 << 20  # tuples of the largest piece that adding makes by merging
_SPARSE = 8  # places that a table may have for each tuple
_SMALL = 64  # tuples up to which a piece is not compacted


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
    """Tuples kept in arrival order, under ascending numbers, with a flag each."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._pieces: list[_Piece] = []
        self._made = 0  # pieces that there ever were
        self._next = 0  # the number of the next tuple
        self._stored: set[int] = set()

    def __len__(self) -> int:
        return sum(piece.left for piece in self._pieces)

    def add(self, rows: pa.RecordBatch) -> Ints:
        """Add rows; return their numbers."""
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
        """Columns, selected ones or all, of kept tuples; NULL for a number below 0."""
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
        """Tuples gathered from several pieces, and the position of each among them."""
        places = np.zeros(len(numbers), np.int64)
        taken, size = [], 0
        for piece, own in self._by_piece(numbers):
            rows = piece.rows.select(list(which)).take(pa.array(piece.places(numbers[own])))
            places[own] = np.arange(size, size + len(own))
            taken.append(rows)
            size += len(own)
        return pa.concat_batches(taken), places

    def _by_piece(self, numbers: Ints) -> Iterator[tuple[_Piece, Ints]]:
        """Pieces that have some of the tuples, with the indices of these."""
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
        """Forget tuples that are still kept, and will not be asked for again."""
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
        """Restore the kept tuples; return them with their numbers."""
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


# Tuples in the order of key and time, searched by bisection.

_MOST = 2**62  # highest place: key and time are packed into one number
_FEW = 64  # places up to which a search does not sort them first


class KeyedTimes:
    """Tuples sorted by key and time. `order` sorts them; `ties` ranks those that have the same key
    and the same time, and is called only if there are such.

    >>> times = KeyedTimes(np.array([7, 4, 7]), np.array([30, 10, 10]), lambda which: which)
    >>> times.order
    array([1, 2, 0])
    >>> times.upto(np.array([7, 7, 4]), np.array([29, 30, 9]))
    array([2, 3, 0])
    >>> times.since(np.array([7, 7, 4]), np.array([29, 31, 9]))
    array([2, 3, 0])
    """

    def __init__(self, codes: Codes, ticks: Ints, ties: Callable[[Ints], Ints] | None) -> None:
        self._low, self._high = extremes(ticks) if len(ticks) else (0, 0)
        self._codes = extremes(codes)[1] + 1 if len(codes) else 0  # above all of them
        self._stride = self._high - self._low + 2  # place 0 of a key is before its first time
        self._known: Ints | None = None
        if self._stride * (self._codes + 1) > _MOST:  # then ticks are numbered, lowest first
            self._known = np.unique(ticks)
            self._stride = len(self._known) + 1
        places = codes * self._stride + self._upto(ticks)
        self.order: Ints = np.argsort(places)
        self._places: Ints = places[self.order]
        if ties is not None and len(places) > 1:
            self._settle(ties)

    def _settle(self, ties: Callable[[Ints], Ints]) -> None:
        same = self._places[1:] == self._places[:-1]
        if not same.any():
            return
        tied = np.zeros(len(self.order), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        which = self.order[tied]
        ranks = ties(which)
        self.order[tied] = which[np.lexsort((ranks, self._places[tied]))]

    def upto(self, codes: Codes, ticks: Ints) -> Ints:
        """Position in the order where the tuples of a key that are not above a tick end."""
        return self._find(self._begins(codes) + self._upto(ticks) + 1)

    def since(self, codes: Codes, ticks: Ints | None) -> Ints:
        """Position in the order where the tuples of a key that are not below a tick begin; None:
        all of the key.
        """
        begins = self._begins(codes)
        return self._find(begins if ticks is None else begins + self._since(ticks))

    def _begins(self, codes: Codes) -> Ints:
        begins: Ints = np.minimum(codes, self._codes) * self._stride
        return begins

    def _find(self, places: Ints) -> Ints:
        """Number of tuples below each place."""
        if len(places) < _FEW:
            return self._places.searchsorted(places)
        order = np.argsort(places)  # in order, they are found much faster
        found = np.empty(len(places), np.int64)
        found[order] = self._places.searchsorted(places[order])
        return found

    def _upto(self, ticks: Ints) -> Ints:
        """Number of places that the ticks up to each one take; ticks may lie outside the known
        range.
        """
        if self._known is not None:
            return self._known.searchsorted(ticks, "right")
        # no difference is taken before both sides are near
        return np.clip(ticks, self._low, self._high) - self._low + (ticks >= self._low)

    def _since(self, ticks: Ints) -> Ints:
        if self._known is not None:
            return self._known.searchsorted(ticks, "left") + 1
        return np.clip(ticks, self._low, self._high) - self._low + 1 + (ticks > self._high)


def earlier(ticks: Ints, length: int) -> Ints:
    """Subtract a length from ticks, down to the lowest that 64 bits can hold.

    >>> earlier(np.array([5, -(2**63) + 1]), 2)
    array([                   3, -9223372036854775808])
    """
    while length > INT64_MAX:
        ticks, length = earlier(ticks, INT64_MAX), min(length - INT64_MAX, 2**64)
    return np.maximum(ticks, INT64_MIN + length) - length


# The inputs of an operator with several timed inputs: late tuples, and the bound of each input.


class TimedInputs:
    """Late tuples and bounds of several timed inputs.

    `bounds` are those below which the tuples of each input are complete: where late tuples are
    amended, they trail the promised bounds by that much.
    """

    def __init__(
        self, nodes: Sequence[Node], attributes: Sequence[Column], asked: Asked | None
    ) -> None:
        self._in_time = [
            in_time_of([attribute], node, asked)
            for node, attribute in zip(nodes, attributes, strict=True)
        ]
        self.bounds: list[Bound] = [BEGINNING for _ in nodes]
        self.high: dict[str, Bound] = {}

    @property
    def ended(self) -> bool:
        return all(bound == END for bound in self.bounds)

    def split(self, port: int, batch: Batch) -> tuple[Batch, Ints, list[LateRows]]:
        """Split a batch into the tuples that count, with their ticks, and the late ones."""
        given, ticks, late = self._in_time[port].split_signed(batch)
        return given, ticks[0], late

    def pass_(self, port: int, progress: Progress) -> None:
        (bound,) = self._in_time[port].final(progress)
        self.bounds[port] = max(bound, self.bounds[port])
        for name, high in progress.high.items():
            self.high[name] = max(high, self.high.get(name, BEGINNING))

    def save(self, origins: Names) -> Tree:
        return {"bounds": self.bounds, "high": by_origin(self.high, origins)}

    def load(self, saved: Tree, origins: Names) -> None:
        self.bounds, self.high = saved["bounds"], by_name(saved["high"], origins)


def promised_on(name: str, bound: Bound, sql_type: Type) -> dict[str, Bound]:
    """Progress that a bound means for a column: nothing if it is below the values of the type, and
    no more than the highest of them.
    """
    room = ticks_of(sql_type)
    return {name: min(bound, room.high)} if bound > room.low else {}
