"""Group keys: the values of each key column numbered as they are first seen, several columns as one
code, and the order of keys and rows by value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import bitmap, column_of, present, values_of
from penstock.kernel.grouping.key_codes import (
    SMALL,
    GrownColumn,
    NumberedInts,
    NumberedPairs,
    TextKeys,
    grown,
)
from penstock.kernel.state import ChunkStore
from penstock.model.arrays import Codes, Ints, first_rows, stable_order
from penstock.model.ordering import exact_key
from penstock.model.types import DOUBLE, INT64_MAX, Kind, Type, from_arrow
from penstock.model.values import to_arrow, to_python

_FEW_KNOWN = (
    2  # known values for each row, above which it is cheaper to look at each distinct value
)
_MANY_TEXTS = 1024  # texts, above which it is cheaper to keep a table of them
_LITTLE = 16  # known values for each that is asked for
_BITS = (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL)
_NAN = int(np.array([np.nan]).view(np.int64)[0])


# Codes of the values of one key column.
#
# Numbers and times are numbered by their bits.  Others go through Arrow's hashing or a table of
# texts; few rows are looked up in a dict.  Equal means SQL's "not distinct": NULLs are one key,
# NaNs are one key, and so are −0.0 and 0.0.


class ColumnCodes(ABC):
    """Values of one key column, numbered as they are first seen."""

    def __init__(self, sql_type: Type) -> None:
        self.type = sql_type

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def encode(self, column: pa.Array) -> Codes:
        """A code for each row."""

    @abstractmethod
    def take(self, codes: Codes) -> pa.Array:
        """The values of codes."""


def codes_of(sql_type: Type) -> ColumnCodes:
    return BitCodes(sql_type) if sql_type.kind in _BITS else ValueCodes(sql_type)


class BitCodes(ColumnCodes):
    """Codes of a type whose values have 64 bits or fewer."""

    def __init__(self, sql_type: Type) -> None:
        super().__init__(sql_type)
        self._numbers = NumberedInts()
        self._null: int | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    def encode(self, column: pa.Array) -> Codes:
        bits = self.bits(column)
        if not column.null_count:
            return self._numbers.encode(bits)
        valid = present(column)
        codes: Codes = np.empty(len(bits), np.int64)
        begin = 0
        if self._null is None:  # numbered in the order of rows, also this one
            begin = int(valid.argmin())
            codes[:begin] = self._numbers.encode(bits[:begin])
            self._null = self._numbers.code_without_value()
        rest, known = codes[begin:], valid[begin:]
        rest[~known] = self._null
        rest[known] = self._numbers.encode(bits[begin:][known])
        return codes

    def encode_bits(self, bits: Ints) -> Codes:
        """The codes of values that are there, by their bits."""
        return self._numbers.encode(bits)

    def bits(self, column: pa.Array) -> Ints:
        """Bits of values, which are equal for equal values; those of NULLs mean nothing."""
        values = values_of(column, self.type)
        if self.type.kind is not Kind.DOUBLE:
            return values.astype(np.int64, copy=False)
        values = values + 0.0
        bits: Ints = values.view(np.int64)
        bits[values != values] = _NAN
        return bits

    def take(self, codes: Codes) -> pa.Array:
        values = self._numbers.values[codes]
        if self.type.kind is Kind.DOUBLE:
            values = values.view(np.float64)
        column = column_of(values, self.type)
        if self._null is not None:
            valid = codes != self._null
            if not valid.all():
                buffers = [bitmap(valid), column.buffers()[1]]
                return pa.Array.from_buffers(column.type, len(codes), buffers)
        return column


class ValueCodes(ColumnCodes):
    """Codes of any type.  Values are kept in Python and in Arrow, at least one of which has all;
    the other one catches up when it is used."""

    def __init__(self, sql_type: Type) -> None:
        super().__init__(sql_type)
        self._codes: dict[Hashable, int] = {}
        self._values: list[Any] = []
        self._known = GrownColumn(to_arrow([], sql_type))
        self._texts = TextKeys() if sql_type.kind is Kind.STRING else None
        self._in_table = 0  # how many values that has
        self._null: int | None = None

    def __len__(self) -> int:
        return max(len(self._values), len(self._known))

    def encode(self, column: pa.Array) -> Codes:
        if len(column) <= SMALL:
            return self._by_python(column)
        if self._texts is not None and len(self) >= _MANY_TEXTS:
            codes = self._encode_texts(column, self._texts)
            if codes is not None:
                return codes
        if len(column) * _FEW_KNOWN < len(self):  # index_in looks at all values that are known
            encoded = column.dictionary_encode(null_encoding="encode")
            of_rows: Codes = self._by_python(encoded.dictionary)[np.asarray(encoded.indices)]
            return of_rows
        found = pc.index_in(column, value_set=self._in_arrow().whole())
        if not found.null_count:
            return np.asarray(found).astype(np.int64)
        new = found.is_null()
        codes = np.asarray(found.fill_null(0)).astype(np.int64)
        codes[np.asarray(new)] = self._added(column.filter(new))
        return codes

    def _added(self, column: pa.Array) -> Codes:
        """The codes of rows whose values are all new."""
        known = self._in_arrow()
        begin, fresh = len(known), column.unique()
        if fresh.null_count:
            self._null = begin + int(present(fresh).argmin())
        known.append(fresh)
        return np.asarray(pc.index_in(column, value_set=fresh)).astype(np.int64) + begin

    def _encode_texts(self, column: pa.Array, table: TextKeys) -> Codes | None:
        """The codes of texts by a table; None if some are not for it."""
        if not column.null_count:
            return self._encode_present_texts(column, table)
        if self._null is None or column.null_count == len(column):
            return None
        found = self._encode_present_texts(column.drop_null(), table)
        if found is None:
            return None
        codes: Codes = np.full(len(column), self._null)
        codes[present(column)] = found
        return codes

    def _encode_present_texts(self, column: pa.Array, table: TextKeys) -> Codes | None:
        codes = table.find(column) if self._bring_up(table) else None
        if codes is None:
            self._texts = None  # now and later
        elif codes.min() < 0:
            new = codes < 0
            codes[new] = self._added(column.filter(pa.array(new)))
        return codes

    def _bring_up(self, table: TextKeys) -> bool:
        """Add all known values to a table."""
        if self._in_table == len(self):
            return True
        added = self._in_arrow().since(self._in_table)
        numbers = np.flatnonzero(present(added))
        if len(numbers) and not table.add(added.take(pa.array(numbers)), numbers + self._in_table):
            return False
        self._in_table = len(self)
        return True

    def _by_python(self, column: pa.Array) -> Codes:
        if len(self._values) < len(self._known):
            missing = to_python(self._known.since(len(self._values)), self.type)
            for value in missing:
                self._code(value)
        return np.fromiter(map(self._code, to_python(column, self.type)), np.int64, len(column))

    def _code(self, value: Any) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self._values)
            self._values.append(value)
            if value is None:
                self._null = code
        return code

    def _in_arrow(self) -> GrownColumn:
        """All values, in the order of their codes."""
        if len(self._known) < len(self._values):
            self._known.append(to_arrow(self._values[len(self._known) :], self.type))
        return self._known

    def take(self, codes: Codes) -> pa.Array:
        behind = len(self._known) < len(self._values)
        if behind and len(codes) * _LITTLE < len(self._values):  # not worth copying all of them
            return to_arrow([self._values[code] for code in codes.tolist()], self.type)
        return self._in_arrow().take(codes)


# Usual pairs: often one key decides the next, as an id does the name.
#
# Then a pair need not be looked for among all pairs, nor the value among all values.

_NONE = -1
_ENOUGH = 1 << 17  # rows after which it is known whether one key decides the next
Encode: TypeAlias = Callable[[Codes, Ints], Codes]


class UsualPairs:
    """Pairs of a code and a number, each of which has a code.

    >>> usual = UsualPairs()
    >>> usual.encode(np.array([1, 0]), np.array([70, 50]), lambda left, right: right + left)
    array([71, 50])
    >>> usual.encode(np.array([0, 0, 1]), np.array([50, 51, 70]), lambda left, right: right)
    array([50, 51, 71])
    """

    def __init__(self) -> None:
        self._rights: Ints = np.empty(0, np.int64)  # by the code on the left
        self._codes: Codes = np.empty(0, np.int64)  # of that pair; −1 if there is none
        self._asked = self._found = 0

    @property
    def worth_it(self) -> bool:
        return self._asked < _ENOUGH or 2 * self._found > self._asked

    def encode(self, left: Codes, right: Ints, encode: Encode) -> Codes:
        """Codes of pairs; pairs that are not usual are encoded by `encode`."""
        size = int(left.max()) + 1
        self._rights, self._codes = grown(self._rights, size, 0), grown(self._codes, size, _NONE)
        codes = self._codes[left]
        others = np.flatnonzero((self._rights[left] != right) | (codes == _NONE))
        self._asked += len(left)
        self._found += len(left) - len(others)
        if len(others):
            codes[others] = self._encode_others(left[others], right[others], encode)
        return codes

    def _encode_others(self, left: Codes, right: Ints, encode: Encode) -> Codes:
        """Encode pairs; if each code on the left has one number on the right, it is encoded
        once."""
        rows, numbers = first_rows(left)
        first_left, first_right = left[rows], right[rows]
        if (first_right[numbers] == right).all():
            self._found += len(left) - len(rows)
            found = encode(first_left, first_right)
            codes = found[numbers]
        else:
            codes = encode(left, right)
            found = codes[rows]
        self._rights[first_left], self._codes[first_left] = first_right, found
        return codes


# The order of keys by value: numbers by size, texts by their characters, NaN above all numbers,
# NULL behind everything.
#
# Groups leave a window in this order, whichever came first.  Keys are sorted once for as long as
# none is added; where results are few compared with the keys, only theirs are.

_FEW_KEYS = 1024  # keys that may be sorted again at any time
_MANY_KEYS = 4  # times as many keys as results, above which only those of the results are sorted


class KeyOrder:
    """Ranks of keys by value, computed again when keys have been added and it is worth it."""

    def __init__(self) -> None:
        self._codes: Codes = np.zeros(0, np.int64)  # in the order of their keys
        self._ranks: Ints = np.zeros(0, np.int64)  # of each code

    def places(self, codes: Codes, size: int, take: Callable[[Codes], list[pa.Array]]) -> Ints:
        """Order of some codes by their keys, of which there are `size`; `take` returns the columns
        of keys.

        >>> keys = pa.array(["b", None, "a"])
        >>> KeyOrder().places(np.array([0, 1, 2]), 3, lambda codes: [keys.take(pa.array(codes))])
        array([2, 0, 1])
        """
        if len(codes) < 2:
            return np.arange(len(codes))
        if self._knows(size, len(codes), take):
            return stable_order(self._ranks[codes])
        return sorted_places(take(codes))

    def present(self, rows: Ints, size: int, take: Callable[[Codes], list[pa.Array]]) -> Codes:
        """The codes that have rows, in the order of their keys."""
        if len(self._codes) == size <= len(rows):
            return self._codes[rows[self._codes] > 0]
        codes = np.flatnonzero(rows)
        return codes[self.places(codes, size, take)]

    def _knows(self, size: int, asked: int, take: Callable[[Codes], list[pa.Array]]) -> bool:
        """Whether all keys are in order by now, which may not be worth it."""
        if len(self._codes) < size and size <= max(_FEW_KEYS, _MANY_KEYS * asked):
            self._codes = sorted_places(take(np.arange(size)))
            self._ranks = np.empty(size, np.int64)
            self._ranks[self._codes] = np.arange(size)
        return len(self._codes) == size


def comparable(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Numbers in the order of values that Arrow cannot compare: ARRAYs, STRUCTs and MAPs.

    >>> comparable(pa.array([[2], None, [1, 7], [2]])).to_pylist()
    [1, 2, 0, 1]
    """
    if not pa.types.is_nested(column.type):
        return column
    sql_type = from_arrow(column.type)
    assert sql_type is not None
    keys = [exact_key(value) for value in to_python(column, sql_type)]
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return pa.array([ranks[key] for key in keys], pa.int64())


def sorted_places(columns: list[pa.Array]) -> Ints:
    """Order of rows by some columns."""
    names = [str(number) for number in range(len(columns))]
    table = pa.table(list(map(comparable, columns)), names)
    # Arrow has NaN behind the numbers, and NULLs at the end
    order = pc.sort_indices(table, [(name, "ascending") for name in names])
    return np.asarray(order).astype(np.int64)


# Group keys to small integers and back, so that all state is arrays indexed by group.
#
# Several columns are numbered two by two: pairs of their codes are whole numbers, too.

_BLOCK = 1024  # keys that are saved together


@dataclass(slots=True)
class _ColumnOrder:
    """Order in which columns are combined, for all keys of one kind: with many rows, it is first
    found out which column has the most values."""

    places: list[int]
    known: bool = False


class KeyCodes:
    """The keys of groups, numbered as they are first seen; without columns there is one group."""

    def __init__(self, types: Sequence[Type], by: Sequence[int] = ()) -> None:
        """`by` has the places of the columns as they count for the order, if that is another."""
        self._by = list(by) or list(range(len(types)))
        self.columns = [codes_of(sql_type) for sql_type in types]
        self._shared_order = _ColumnOrder(list(range(len(types))))
        self._column_order = self._shared_order.places  # in which columns are put together
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
            if rows > SMALL and not self._shared_order.known:
                self._most_different_first(columns)
            self._column_order = self._shared_order.places
        first, *others = self._column_order
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
        """Put the column with the most values first, because it often decides the others."""
        for known, column in zip(self.columns, columns, strict=True):
            known.encode(column)
        turn = sorted(self._column_order, key=lambda place: -len(self.columns[place]))
        self._shared_order.places, self._shared_order.known = turn, True

    def take(self, codes: Codes) -> list[pa.Array]:
        """The key columns of groups."""
        if not self.columns:
            return []
        columns: list[pa.Array] = [None] * len(self.columns)
        first, *others = self._column_order
        for pairs, place in zip(reversed(self._pairs), reversed(others), strict=True):
            codes, right = pairs.taken_apart(codes)
            columns[place] = self.columns[place].take(right)
        columns[first] = self.columns[first].take(codes)
        return columns

    def order_of(self, codes: Codes) -> Ints:
        """Order of groups by their keys; stable."""
        if not self.columns:
            return np.arange(len(codes))
        return self._order.places(codes, len(self), self._ordered_columns)

    def present(self, rows: Ints) -> Codes:
        """The groups that have rows, in the order of their keys."""
        if not self.columns:
            return rows.nonzero()[0]
        return self._order.present(rows, len(self), self._ordered_columns)

    def _ordered_columns(self, codes: Codes) -> list[pa.Array]:
        columns = self.take(codes)
        return [columns[place] for place in self._by]

    def empty(self) -> KeyCodes:
        """Keys of the same types, none of which has been seen."""
        made = KeyCodes([column.type for column in self.columns], self._by)
        made._shared_order = self._shared_order
        return made

    def only(self, codes: Codes) -> KeyCodes:
        """Keep some of the keys, numbered by their place in `codes`; all others are dropped."""
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
        """Restore into keys that are empty."""
        while (columns := store.get(f"keys/{self._blocks}")) is not None:
            self.encode(columns, len(columns[0]))
            self._blocks += 1
        self._saved = len(self)


def _encode_bits(pairs: NumberedPairs, known: BitCodes, left: Codes, right: Ints) -> Codes:
    return pairs.encode_pairs(left, known.encode_bits(right), len(known))


def _encode_codes(pairs: NumberedPairs, known: ColumnCodes, left: Codes, right: Ints) -> Codes:
    return pairs.encode_pairs(left, right, len(known))


# The order of rows by the values of their columns, from left to right: it decides between tuples of
# one time, so that arrival does not.


def value_ranks(columns: list[pa.Array]) -> Ints:
    """Rank of each row among all; rows that are equal to the last bit are ranked in their order.
    NaN is above all numbers and NULL above everything; −0.0 is below 0.0, because it can be told
    from it.

    >>> value_ranks([pa.array([1, None, 1]), pa.array([0.0, 1.0, -0.0])])
    array([1, 2, 0])
    """
    order = sorted_places([_comparable(column) for column in columns])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _comparable(column: pa.Array) -> pa.Array:
    """Doubles as integers in the same order, which tells the zeros apart."""
    if not pa.types.is_floating(column.type):
        return column
    doubles = values_of(column, DOUBLE)
    bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ INT64_MAX, bits), mask=~present(column))
