"""The values of one key column, numbered as they are first seen.

Numbers and times are numbered by their bits.  Others go through Arrow's hashing or a table of
texts; few rows are looked up in a dict.  Equal means SQL's "not distinct": NULLs are one key, NaNs
are one key, and so are −0.0 and 0.0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import bitmap, column_of, present, values_of
from penstock.model.arrays import Codes, Ints
from penstock.model.plain_values import to_arrow, to_python
from penstock.model.types import Kind, Type
from penstock.operators.folding.grown_column import GrownColumn
from penstock.operators.folding.numbered_ints import SMALL, NumberedInts
from penstock.operators.folding.text_keys import TextKeys

_FEW = 2  # known values for each row, above which it is cheaper to look at each distinct value
_MANY = 1024  # texts, above which it is cheaper to keep a table of them
_LITTLE = 16  # known values for each that is asked for
_BITS = (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL)
_NAN = int(np.array([np.nan]).view(np.int64)[0])


class ColumnCodes(ABC):
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
    """Of a type whose values are 64 bits or fewer."""

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
        """The same for equal values, but for NULLs."""
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
    """Of any type.  Python and Arrow both know the values, and one of them all: the other one
    learns what is missing when it is asked."""

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
        if self._texts is not None and len(self) >= _MANY:
            codes = self._encode_texts(column, self._texts)
            if codes is not None:
                return codes
        if len(column) * _FEW < len(self):  # index_in looks at all values that are known
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
        """Let a table know all values that there are."""
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
