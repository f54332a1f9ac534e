"""Whole numbers, numbered as they are first seen.

Large batches go through a table as a whole.  Few rows are looked up one by one in a dict, which is
faster for them; table and dict learn what the other has taken in when they are asked.  Pairs of
numbers are numbered in the same way.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.first_rows import first_rows
from penstock.operators.folding.dense_keys import DenseKeys
from penstock.operators.folding.hashed_keys import HashedKeys
from penstock.operators.folding.scatter import grown

SMALL = 32  # rows that are looked up one by one
_NONE = -1
_TOLD = 128  # values that a dict is told for every time that few rows were asked for
_HALF = 32  # bits of each code of a pair
_LOWER = (1 << _HALF) - 1


class NumberedInts:
    """
    >>> numbers = NumberedInts()
    >>> numbers.encode(np.array([70, 50, 70]))
    array([0, 1, 0])
    >>> numbers.values
    array([70, 50])
    """

    def __init__(self) -> None:
        self._values: Ints = np.empty(0, np.int64)  # by code, with room for more
        self._size = 0
        self._codes: dict[int, int] = {}
        self._in_dict = 0  # how many values that has
        self._times_asked = 0  # for few rows
        self._table: DenseKeys | HashedKeys = DenseKeys()
        self._in_table = 0
        self._close_again = 0  # how many values there are when they may lie close together
        self._without = _NONE

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> Ints:
        """By code; that of a code without a value means nothing."""
        return self._values[: self._size]

    def code_without_value(self) -> int:
        """A code that no number has, always the same."""
        if self._without == _NONE:
            self._without = self._size
            self._append(np.zeros(1, np.int64))
        return self._without

    def encode(self, values: Ints) -> Codes:
        """A code for each value."""
        if len(values) <= SMALL and self._dict_is_worth_it():
            return self._one_by_one(values)
        return self._all_at_once(values)

    def _dict_is_worth_it(self) -> bool:
        """Not for a few rows now and then, if very many values would have to be told to it."""
        self._times_asked += 1
        return self._size - self._in_dict <= _TOLD * self._times_asked

    def _one_by_one(self, values: Ints) -> Codes:
        if self._in_dict < self._size:
            codes = self._from(self._in_dict)
            self._codes.update(zip(self._values[codes].tolist(), codes.tolist(), strict=True))
            self._in_dict = self._size
        return np.fromiter(map(self._code, values.tolist()), np.int64, len(values))

    def _all_at_once(self, values: Ints) -> Codes:
        """Of values as the table has them."""
        if not len(values):
            return np.empty(0, np.int64)
        if self._in_table < self._size:
            self._bring_up_table()
        codes = self._table.find(values)
        if codes.min() != _NONE:
            return codes
        new = np.flatnonzero(codes == _NONE)
        values = values[new]
        rows, numbers = first_rows(values)
        codes[new] = numbers + self._size
        self._append(self._out_of_table(values[rows]))
        return codes

    def _for_table(self, values: Ints) -> Ints:
        return values

    def _out_of_table(self, values: Ints) -> Ints:
        return values

    def _code(self, value: int) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = self._size
            self._values = grown(self._values, code + 1, 0)
            self._values[code] = value
            self._size = self._in_dict = code + 1
        return code

    def _append(self, values: Ints) -> None:
        begin, self._size = self._size, self._size + len(values)
        self._values = grown(self._values, self._size, 0)
        self._values[begin : self._size] = values

    def _from(self, begin: int) -> Codes:
        """The codes from one on that have values."""
        codes = np.arange(begin, self._size)
        return codes if self._without < begin else codes[codes != self._without]

    def _bring_up_table(self) -> None:
        if isinstance(self._table, HashedKeys) and self._size >= self._close_again:
            self._close_again = 2 * self._size
            table, codes = DenseKeys(), self._from(0)
            if table.add(self._for_table(self._values[codes]), codes):
                self._table, self._in_table = table, self._size
        codes = self._from(self._in_table)
        if not self._table.add(self._for_table(self._values[codes]), codes):
            self._close_again = 2 * self._size
            self._table, codes = HashedKeys(), self._from(0)
            self._table.add(self._for_table(self._values[codes]), codes)
        self._in_table = self._size

    def _forget_table(self) -> None:
        self._table, self._in_table, self._close_again = DenseKeys(), 0, 0


class NumberedPairs(NumberedInts):
    """Pairs of codes.  The table has them as close together as they can be for as many codes as
    there are on the right, so that it need not hash them if most pairs occur.

    >>> pairs = NumberedPairs()
    >>> pairs.encode_pairs(np.array([1, 0, 1]), np.array([0, 3, 0]), 4)
    array([0, 1, 0])
    >>> pairs.taken_apart(np.array([1, 0]))
    (array([0, 1]), array([3, 0]))
    """

    def __init__(self) -> None:
        super().__init__()
        self._bits = 0  # of the code on the right, in the table

    def encode_pairs(self, left: Codes, right: Codes, width: int) -> Codes:
        """A code for each pair; those on the right are below `width`."""
        if len(left) <= SMALL and self._dict_is_worth_it():
            return self._one_by_one(left << _HALF | right)
        if width > 1 << self._bits:
            self._bits = (width - 1).bit_length()
            self._forget_table()
        return self._all_at_once(left << self._bits | right)

    def taken_apart(self, codes: Codes) -> tuple[Codes, Codes]:
        both = self._values[codes]
        return both >> _HALF, both & _LOWER

    def _for_table(self, values: Ints) -> Ints:
        return values >> _HALF << self._bits | values & _LOWER

    def _out_of_table(self, values: Ints) -> Ints:
        return values >> self._bits << _HALF | values & (1 << self._bits) - 1
