"""Rows of a table by the values of some columns, found for whole columns at a time.

The table is complete, so keys are numbered once; what is looked up is never added.  Equal is what
`=` says: NULL is equal to nothing, and neither is NaN.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import flags_of, present, values_of
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.plain_values import to_python
from penstock.model.stable_order import stable_order
from penstock.model.types import Kind, Type
from penstock.operators.folding.text_keys import TextKeys
from penstock.windows.columns import extremes

_NONE = -1
_SMALL = 32  # rows that Python looks at faster
_MANY = 1_000_000  # texts that Python does not hold for that alone
_SPAN = 4096  # of a table by value that is always allowed
_SPARSE = 8  # how many places a longer one may have for each value


class TableIndex:
    """
    >>> from penstock.model.types import STRING
    >>> index = TableIndex([pa.array(["b", "a", None, "b"])], [STRING], 4)
    >>> begin, count = index.find([pa.array(["b", "c", None])], 3)
    >>> count, index.rows[begin[0] : begin[0] + count[0]]
    (array([2, 0, 0]), array([0, 3]))
    """

    def __init__(self, columns: Sequence[pa.Array], types: Sequence[Type], size: int) -> None:
        self._columns = [_numbering(*each) for each in zip(columns, types, strict=True)]
        self._steps: list[Ints] = []  # for each column but the first: the pairs that there are
        codes = self._codes(columns, size, learn=True)
        there = np.flatnonzero(codes >= 0)
        self.rows: Ints = there[stable_order(codes[there])]  # by key, then by place
        # the last place is that of keys without rows, which have the number −1
        self._counts: Ints = np.append(np.bincount(codes[there]), 0)
        self._begins: Ints = np.cumsum(self._counts) - self._counts

    def find(self, columns: Sequence[pa.Array], size: int) -> tuple[Ints, Ints]:
        """For every row: where in `rows` those of the table begin that it agrees with, and how many
        they are."""
        codes = self._codes(columns, size)
        return self._begins[codes], self._counts[codes]

    def _codes(self, columns: Sequence[pa.Array], size: int, learn: bool = False) -> Codes:
        """One number for the key of each row, −1 for keys that the table does not have."""
        if not self._columns:
            return np.zeros(size, np.int64)
        codes = self._columns[0].find(columns[0])
        for place, (known, column) in enumerate(zip(self._columns[1:], columns[1:], strict=True)):
            other = known.find(column)
            pairs = np.where((codes >= 0) & (other >= 0), codes * known.size + other, _NONE)
            if learn:
                self._steps.append(np.unique(pairs[pairs >= 0]))
            codes = _places(self._steps[place], pairs)
        return codes


class _Numbering(Protocol):
    """The different values of a column, numbered."""

    size: int

    def find(self, column: pa.Array) -> Codes:
        """The number of each value, −1 for those that are not known."""
        ...


def _numbering(column: pa.Array, sql_type: Type) -> _Numbering:
    match sql_type.kind:
        case Kind.STRING:
            return _Texts(column, sql_type)
        case Kind.BINARY | Kind.DECIMAL:
            return _Objects(column, sql_type)
        case _:
            return _Sorted(column, sql_type)


class _Sorted:
    """Values of fixed width, in order; whole ones that lie close together have a table by value."""

    def __init__(self, column: pa.Array, sql_type: Type) -> None:
        self._type = sql_type
        values, usable = self._values(column)
        self._known = np.unique(values if usable is None else values[usable])
        self.size = len(self._known)
        self._table: Codes | None = None
        if self.size and sql_type.kind is not Kind.DOUBLE:
            self._lowest, highest = extremes(self._known)
            if highest - self._lowest < _SPAN + _SPARSE * self.size:
                self._table = np.full(highest - self._lowest + 2, _NONE, np.int64)
                self._table[self._known - self._lowest] = np.arange(self.size)

    def find(self, column: pa.Array) -> Codes:
        values, usable = self._values(column)
        if self._table is None:
            codes = _places(self._known, values)
        else:  # what is beyond the table, on either side, is like its last place: nothing is there
            places = (values - self._lowest).view(np.uint64)
            codes = self._table[np.minimum(places, np.uint64(len(self._table) - 1)).view(np.int64)]
        if usable is not None:
            codes[~usable] = _NONE
        return codes

    def _values(self, column: pa.Array) -> tuple[npt.NDArray[Any], Mask | None]:
        """The values, and which of them can be equal to others; None: all."""
        usable = present(column) if column.null_count else None
        if self._type.kind is Kind.BOOLEAN:
            return np.asarray(column.cast(pa.int8()).fill_null(0)).astype(np.int64), usable
        values = values_of(column, self._type)
        if self._type.kind is not Kind.DOUBLE:
            return values.astype(np.int64, copy=False), usable
        numbers = ~np.isnan(values)
        return values, numbers if usable is None else numbers & usable


class _Objects:
    """Values that Python has to look at, each different one of a batch once."""

    def __init__(self, column: pa.Array, sql_type: Type) -> None:
        self._type = sql_type
        known = to_python(column.drop_null().unique(), sql_type)
        self._codes: dict[Hashable, int] = {value: code for code, value in enumerate(known)}
        self.size = len(self._codes)

    def find(self, column: pa.Array) -> Codes:
        if len(column) <= _SMALL:
            few = to_python(column, self._type)
            return np.array([self._codes.get(value, _NONE) for value in few], np.int64)
        encoded = column.dictionary_encode(null_encoding="encode")
        values = to_python(encoded.dictionary, self._type)
        found = np.array([self._codes.get(value, _NONE) for value in values], np.int64)
        codes: Codes = found[np.asarray(encoded.indices)]
        return codes


class _Texts:
    """A table by hash, and Python for texts that are not for it."""

    def __init__(self, column: pa.Array, sql_type: Type) -> None:
        self._known = column.drop_null().unique()
        self._type = sql_type
        self.size = len(self._known)
        self._longest = pc.max(pc.binary_length(self._known)).as_py() or 0  # bytes
        self._table: TextKeys | None = TextKeys()
        if self.size and not self._table.add(self._known, np.arange(self.size)):
            self._table = None

    def find(self, column: pa.Array) -> Codes:
        if len(column) <= _SMALL and self.size <= _MANY:
            return self._by_python.find(column)
        usable = pc.less_equal(pc.binary_length(column), self._longest)
        if not column.null_count and usable.true_count == len(column):
            return self._find(column)
        codes = np.full(len(column), _NONE, np.int64)
        codes[flags_of(usable)] = self._find(column.filter(usable))
        return codes

    def _find(self, texts: pa.Array) -> Codes:
        """Of texts that are not longer than those that are known."""
        codes = self._table.find(texts) if self._table is not None and len(texts) else None
        return codes if codes is not None else self._by_python.find(texts)

    @cached_property
    def _by_python(self) -> _Objects:
        return _Objects(self._known, self._type)


def _places(known: npt.NDArray[Any], values: npt.NDArray[Any]) -> Codes:
    """Where values are among sorted ones, −1 for those that are not.

    >>> _places(np.array([2, 5]), np.array([5, 3, 9, 2]))
    array([ 1, -1, -1,  0])
    """
    if not len(known):
        return np.full(len(values), _NONE, np.int64)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    codes: Codes = np.where(known[places] == values, places, _NONE)
    return codes
