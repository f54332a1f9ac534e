"""Group keys to small integers and back, so that all state is arrays indexed by group.

Large batches go through tables of integers or Arrow's hashing, so Python sees each distinct value
at most once; small ones are looked up directly.  Equal means SQL's "not distinct": NULLs are one
key, NaNs are one key.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import present, values_of
from penstock.expressions.node import arrow
from penstock.model.arrays import Codes, Ints
from penstock.model.plain_values import to_arrow, to_python
from penstock.model.types import Kind, Type
from penstock.operators.folding.dense_keys import DenseKeys
from penstock.operators.folding.key_order import KeyOrder
from penstock.operators.folding.text_keys import TextKeys
from penstock.state.chunks import ChunkStore

_TAKE = arrow("take", pc.TakeOptions(boundscheck=False))
_SMALL = 32
_FEW = 2  # known values for each row, above which it is cheaper to look at each distinct value
_MANY = 1024  # texts, above which it is cheaper to keep a table of them
_LITTLE = 16  # known values for each that is asked for
_NAN = ("NaN",)
_BLOCK = 1024  # keys that are saved together


class ColumnCodes:
    """The values of one key column, numbered as they are first seen."""

    def __init__(self, sql_type: Type) -> None:
        self.type = sql_type
        self._codes: dict[Hashable, int] = {}
        self._values: list[Any] = []
        self._array = to_arrow([], sql_type)
        self._close = DenseKeys() if sql_type.is_integer else None
        self._texts = TextKeys() if sql_type.kind is Kind.STRING else None
        self._in_table = 0  # how many values one of those has
        self._close_again = 0  # how many values there are when integers may be close together

    def __len__(self) -> int:
        return len(self._values)

    def encode(self, column: pa.Array) -> Codes:
        if self.type.kind is Kind.DOUBLE:
            column = pc.add(column, 0.0)  # −0.0 and 0.0 are one key
        if len(column) <= _SMALL:
            return np.fromiter(map(self._code, to_python(column, self.type)), np.int64, len(column))
        again = len(self._values) >= self._close_again
        if self._close is not None and again and not column.null_count:
            codes = self._encode_close(column, self._close)
            if codes is not None:
                return codes
        if self._texts is not None and len(self._values) >= _MANY and not column.null_count:
            codes = self._encode_texts(column, self._texts)
            if codes is not None:
                return codes
        # index_in does not find NaN, and looks at all values that are known
        if self.type.kind is Kind.DOUBLE or len(column) * _FEW < len(self._values):
            encoded = column.dictionary_encode(null_encoding="encode")
            distinct = list(map(self._code, to_python(encoded.dictionary, self.type)))
            of_rows: Codes = np.array(distinct, np.int64)[np.asarray(encoded.indices)]
            return of_rows
        known = pc.index_in(column, value_set=self._known())
        if known.null_count:  # some are new: Python sees each of those once
            fresh = column.filter(known.is_null()).unique()
            for value in to_python(fresh, self.type):
                self._code(value)
            known = pc.index_in(column, value_set=self._known())
        return np.asarray(known).astype(np.int64)

    def _encode_close(self, column: pa.Array, table: DenseKeys) -> Codes | None:
        """The codes of integers by a table; None, now and until there are twice as many, if they
        are too far apart."""
        values: Ints = values_of(column, self.type).astype(np.int64, copy=False)
        codes = table.find(values)
        if codes is not None and codes.min() >= 0:
            return codes
        fresh = column if codes is None else column.filter(pa.array(codes < 0))
        for value in to_python(fresh.unique(), self.type):
            self._code(value)
        added = to_arrow(self._values[self._in_table :], self.type)
        numbers = np.flatnonzero(present(added))
        values_added = values_of(added, self.type).astype(np.int64, copy=False)[numbers]
        if not table.add(values_added, numbers + self._in_table):
            self._close, self._in_table = DenseKeys(), 0
            self._close_again = 2 * len(self._values)
            return None
        self._in_table = len(self._values)
        return table.find(values)

    def _encode_texts(self, column: pa.Array, table: TextKeys) -> Codes | None:
        """The codes of texts by a table; None, now and later, if some are not for it."""
        codes = table.find(column) if self._bring_up(table) else None
        if codes is not None and codes.min() < 0:
            for value in to_python(column.filter(pa.array(codes < 0)).unique(), self.type):
                self._code(value)
            codes = table.find(column) if self._bring_up(table) else None
        if codes is None:
            self._texts = None
        return codes

    def _bring_up(self, table: TextKeys) -> bool:
        """Let a table know all values that there are."""
        added = to_arrow(self._values[self._in_table :], self.type)
        numbers = np.flatnonzero(present(added))
        if len(numbers) and not table.add(added.take(pa.array(numbers)), numbers + self._in_table):
            return False
        self._in_table = len(self._values)
        return True

    def _code(self, value: Any) -> int:
        key = _NAN if value != value else value
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self._values)
            self._values.append(value)
        return code

    def _known(self) -> pa.Array:
        """All values, in the order of their codes."""
        if len(self._array) < len(self._values):
            fresh = to_arrow(self._values[len(self._array) :], self.type)
            self._array = pa.concat_arrays([self._array, fresh])
        return self._array

    def take(self, codes: Codes) -> pa.Array:
        behind = len(self._array) < len(self._values)
        if behind and len(codes) * _LITTLE < len(self._values):  # not worth copying all of them
            return to_arrow([self._values[code] for code in codes.tolist()], self.type)
        return _TAKE(self._known(), pa.array(codes))


class KeyCodes:
    """The keys of groups, numbered as they are first seen; without columns there is one group."""

    def __init__(self, types: Sequence[Type], by: Sequence[int] = ()) -> None:
        """`by` has the places of the columns as they count for the order, if that is another."""
        self._by = list(by) or list(range(len(types)))
        self.columns = [ColumnCodes(sql_type) for sql_type in types]
        self._codes: dict[tuple[int, ...], int] = {}
        self._parts = np.zeros((len(types), 0), np.int64)  # the column codes of every key
        self._order = KeyOrder()
        self._saved = 0  # how many keys a store has of these
        self._blocks = 0  # how many blocks it has, perhaps of others

    def __len__(self) -> int:
        if len(self.columns) <= 1:
            return len(self.columns[0]) if self.columns else 1
        return len(self._codes)

    def encode(self, columns: Sequence[pa.Array], rows: int) -> Codes:
        """A code for each row."""
        if not self.columns:
            return np.zeros(rows, np.int64)
        parts = [known.encode(col) for known, col in zip(self.columns, columns, strict=True)]
        if len(parts) == 1:
            return parts[0]
        if rows <= _SMALL:
            keys = zip(*(part.tolist() for part in parts), strict=True)
            return np.fromiter(map(self._code, keys), np.int64, rows)
        combined = parts[0]
        for known, part in zip(self.columns[1:], parts[1:], strict=True):
            # numbered anew after every column, so that no product can overflow
            _, first, inverse = np.unique(
                combined * len(known) + part, return_index=True, return_inverse=True
            )
            combined = inverse.astype(np.int64)
        order = np.argsort(first)  # new keys are numbered in the order of their rows
        keys = zip(*(part[first[order]].tolist() for part in parts), strict=True)
        numbers = np.empty(len(first), np.int64)
        numbers[order] = np.fromiter(map(self._code, keys), np.int64, len(first))
        codes: Codes = numbers[inverse]
        return codes

    def _code(self, key: tuple[int, ...]) -> int:
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self._codes)
        return code

    def take(self, codes: Codes) -> list[pa.Array]:
        """The key columns of groups."""
        if len(self.columns) <= 1:
            return [known.take(codes) for known in self.columns]
        known_keys = self._parts.shape[1]
        if known_keys < len(self._codes):
            fresh = np.array(list(self._codes)[known_keys:], np.int64).T
            self._parts = np.concatenate([self._parts, fresh], axis=1)
        return [
            known.take(part[codes]) for known, part in zip(self.columns, self._parts, strict=True)
        ]

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
        return KeyCodes([column.type for column in self.columns], self._by)

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
