"""Group keys to small integers and back, so that all state is arrays indexed by group.

Several columns are numbered two by two: pairs of their codes are whole numbers, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints
from penstock.model.types import Type
from penstock.operators.folding.column_codes import BitCodes, ColumnCodes, codes_of
from penstock.operators.folding.key_order import KeyOrder
from penstock.operators.folding.numbered_ints import SMALL, NumberedPairs
from penstock.operators.folding.usual_pairs import UsualPairs
from penstock.state.chunks import ChunkStore

_BLOCK = 1024  # keys that are saved together


@dataclass(slots=True)
class _Turn:
    """The places of columns as they are put together, for all keys of one kind: whoever has many
    rows first finds out which has the most values."""

    places: list[int]
    known: bool = False


class KeyCodes:
    """The keys of groups, numbered as they are first seen; without columns there is one group."""

    def __init__(self, types: Sequence[Type], by: Sequence[int] = ()) -> None:
        """`by` has the places of the columns as they count for the order, if that is another."""
        self._by = list(by) or list(range(len(types)))
        self.columns = [codes_of(sql_type) for sql_type in types]
        self._shared_turn = _Turn(list(range(len(types))))
        self._turn = self._shared_turn.places  # in which columns are put together
        self._pairs = [NumberedPairs() for _ in types[1:]]  # of the columns before, and the next
        self._usual = [UsualPairs() for _ in types[1:]]
        self._order = KeyOrder()
        self._saved = 0  # how many keys a store has of these
        self._blocks = 0  # how many blocks it has, perhaps of others

    def __len__(self) -> int:
        if not self._pairs:
            return len(self.columns[0]) if self.columns else 1
        return len(self._pairs[-1])

    def encode(self, columns: Sequence[pa.Array], rows: int) -> Codes:
        """A code for each row; new keys are numbered in the order of their rows."""
        if not self.columns:
            return np.zeros(rows, np.int64)
        if self._pairs and not len(self):
            if rows > SMALL and not self._shared_turn.known:
                self._most_different_first(columns)
            self._turn = self._shared_turn.places
        first, *others = self._turn
        codes = self.columns[first].encode(columns[first])
        for place, pairs, usual in zip(others, self._pairs, self._usual, strict=True):
            column, known = columns[place], self.columns[place]
            if rows <= SMALL or not usual.worth_it:
                codes = pairs.encode_pairs(codes, known.encode(column), len(known))
            elif isinstance(known, BitCodes) and not column.null_count:
                encoded = partial(_encode_bits, pairs, known)
                codes = usual.encode(codes, known.bits(column), encoded)
            else:
                encoded = partial(_encode_codes, pairs, known)
                codes = usual.encode(codes, known.encode(column), encoded)
        return codes

    def _most_different_first(self, columns: Sequence[pa.Array]) -> None:
        """One that has many values often decides the others."""
        for known, column in zip(self.columns, columns, strict=True):
            known.encode(column)
        turn = sorted(self._turn, key=lambda place: -len(self.columns[place]))
        self._shared_turn.places, self._shared_turn.known = turn, True

    def take(self, codes: Codes) -> list[pa.Array]:
        """The key columns of groups."""
        if not self.columns:
            return []
        columns: list[pa.Array] = [None] * len(self.columns)
        first, *others = self._turn
        for pairs, place in zip(reversed(self._pairs), reversed(others), strict=True):
            codes, right = pairs.taken_apart(codes)
            columns[place] = self.columns[place].take(right)
        columns[first] = self.columns[first].take(codes)
        return columns

    def order_of(self, codes: Codes) -> Ints:
        """How to put groups in the order of their keys; of groups that are alike, as they were."""
        if not self.columns:
            return np.arange(len(codes))
        return self._order.places(codes, len(self), self._in_turn)

    def present(self, rows: Ints) -> Codes:
        """The groups that have rows, in the order of their keys."""
        if not self.columns:
            return rows.nonzero()[0]
        return self._order.present(rows, len(self), self._in_turn)

    def _in_turn(self, codes: Codes) -> list[pa.Array]:
        columns = self.take(codes)
        return [columns[place] for place in self._by]

    def empty(self) -> KeyCodes:
        """The same keys, none of which has been seen."""
        made = KeyCodes([column.type for column in self.columns], self._by)
        made._shared_turn = self._shared_turn
        return made

    def only(self, codes: Codes) -> KeyCodes:
        """Some of the keys, numbered by their place in `codes`; all others are forgotten."""
        kept = self.empty()
        kept.encode(self.take(codes), len(codes))
        kept._blocks = self._blocks
        return kept

    def save(self, store: ChunkStore) -> None:
        """Write the blocks that have new keys."""
        if not self.columns:
            return
        size = len(self)
        blocks = -(-size // _BLOCK)
        if size > self._saved:
            for block in range(self._saved // _BLOCK, blocks):
                codes = np.arange(block * _BLOCK, min(size, (block + 1) * _BLOCK))
                store.put(f"keys/{block}", self.take(codes))
        for block in range(blocks, self._blocks):
            store.drop(f"keys/{block}")
        self._saved, self._blocks = size, blocks

    def load(self, store: ChunkStore) -> None:
        """Into keys that are empty."""
        while (columns := store.get(f"keys/{self._blocks}")) is not None:
            self.encode(columns, len(columns[0]))
            self._blocks += 1
        self._saved = len(self)


def _encode_bits(pairs: NumberedPairs, known: BitCodes, left: Codes, right: Ints) -> Codes:
    return pairs.encode_pairs(left, known.encode_bits(right), len(known))


def _encode_codes(pairs: NumberedPairs, known: ColumnCodes, left: Codes, right: Ints) -> Codes:
    return pairs.encode_pairs(left, right, len(known))
