"""Codes of keys and arrays by code: adding rows into arrays, growing columns, and the tables that
number integers, pairs and texts.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import arrow
from penstock.model.arrays import Codes, Ints, Mask, extremes, first_rows, stable_order
from penstock.model.types import INT64_MIN

Dense: TypeAlias = npt.NDArray[Any]
_EXACT_IN_FLOAT = 2**53
_FEW = 8  # rows per group below which touching single groups is cheaper than counting all


# Folding rows into an array by their group codes, fast for one row and for a million.
#
# A batch that is small compared with the array touches only its own groups; a large one is counted
# into a fresh array first, which is several times faster per row.


def add_ones(target: Dense, codes: Codes) -> None:
    """target[code] += 1 for every code."""
    if len(codes) == 1:
        target[codes[0]] += 1
    elif len(codes) * _FEW < len(target):
        np.add.at(target, codes, 1)
    else:
        target += np.bincount(codes, minlength=len(target))


def add_integers(
    target: Dense, codes: Codes, values: npt.NDArray[np.int64], largest: int | None = None
) -> None:
    """target[code] += value, exactly, as long as the sums fit the target; `largest` is the
    magnitude of the values, where it is known."""
    if len(codes) == 1:
        target[codes[0]] += int(values[0])
    elif len(codes) * _FEW < len(target) or target.dtype == object:
        np.add.at(target, codes, values.astype(object) if target.dtype == object else values)
    elif (magnitude(values) if largest is None else largest) * len(values) < _EXACT_IN_FLOAT:
        # bincount adds in floating point, which is exact while no sum can reach 2**53
        sums = np.bincount(codes, weights=values, minlength=len(target))
        target += sums.astype(np.int64)
    else:
        np.add.at(target, codes, values)


def magnitude(values: npt.NDArray[np.int64]) -> int:
    """The largest absolute value, as a Python integer (−2**63 has no positive counterpart)."""
    if len(values) == 0:
        return 0
    unsigned = int(values.view(np.uint64).max())
    if unsigned < 1 << 63:  # none is negative: one pass is enough
        return unsigned
    lowest, highest = extremes(values)
    return max(abs(highest), abs(lowest))


def grown(array: Dense, size: int, identity: Any) -> Dense:
    """The array with room for `size` groups, new ones at the identity; doubled to grow rarely."""
    if len(array) >= size:
        return array
    longer = np.full(max(size, 2 * len(array)), identity, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def spread(array: Dense, codes: Codes, size: int) -> Dense:
    """An array over `size` groups with the values at their codes, and zero elsewhere.

    >>> spread(np.array([7, 8]), np.array([3, 0]), 4)
    array([8, 0, 0, 7])
    """
    wide = np.zeros((*array.shape[:-1], size), array.dtype)
    wide[..., codes] = array
    return wide


# An Arrow column that more and more values are appended to.
#
# It is kept in parts, each less than half as long as the one before, so that appending copies a
# value a few times and not all of them every time.

_TAKE = arrow("take", pc.TakeOptions(boundscheck=False))
_LITTLE = 16  # values for each that is asked for, above which the parts are left as they are


class GrownColumn:
    """
    >>> column = GrownColumn(pa.array(["a", "b", "c"]))
    >>> column.append(pa.array(["d"]))
    >>> column.take(np.array([3, 0])).to_pylist()
    ['d', 'a']
    """

    def __init__(self, first: pa.Array) -> None:
        self._parts = [first]
        self._ends = [len(first)]

    def __len__(self) -> int:
        return self._ends[-1]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def append(self, values: pa.Array) -> None:
        self._parts.append(values)
        while len(self._parts) > 1 and len(self._parts[-2]) < 2 * len(self._parts[-1]):
            self._parts[-2:] = [pa.concat_arrays(self._parts[-2:])]
        self._ends = np.cumsum([len(part) for part in self._parts]).tolist()

    def whole(self) -> pa.Array:
        if len(self._parts) > 1:
            self._parts, self._ends = [pa.concat_arrays(self._parts)], self._ends[-1:]
        return self._parts[0]

    def since(self, begin: int) -> pa.Array:
        """The values from a place on."""
        if begin == len(self):
            return self._parts[0].slice(0, 0)
        first = int(np.searchsorted(self._ends, begin, "right"))
        before = self._ends[first - 1] if first else 0
        own, *others = self._parts[first:]
        return pa.concat_arrays([own.slice(begin - before), *others])

    def take(self, places: Ints) -> pa.Array:
        if len(self._parts) == 1 or len(places) * _LITTLE >= len(self):
            return _TAKE(self.whole(), pa.array(places))
        of_rows = np.searchsorted(self._ends, places, "right")
        order = stable_order(of_rows)
        found, before = [], 0
        for number, (part, end) in enumerate(zip(self._parts, self._ends, strict=True)):
            own = places[of_rows == number] - before
            found.append(_TAKE(part, pa.array(own)))
            before = end
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return _TAKE(pa.concat_arrays(found), pa.array(back))


# Codes of whole numbers that lie anywhere: a table by hash, which stays from batch to batch.
#
# A number that finds its place taken by another one looks at the next: all rows of a batch at once.

_NONE = -1
_FIRST_SIZE = 1024  # places; always a power of two
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
Words = npt.NDArray[np.uint64]


class HashedKeys:
    """
    >>> table = HashedKeys()
    >>> table.add(np.array([1 << 40, -5]), np.array([0, 1]))
    True
    >>> table.find(np.array([-5, 6, 1 << 40]))
    array([ 1, -1,  0])
    """

    def __init__(self) -> None:
        self._values: Ints = np.zeros(_FIRST_SIZE, np.int64)  # by place
        self._codes: Codes = np.full(_FIRST_SIZE, _NONE)
        self._count = 0

    def find(self, values: Ints) -> Codes:
        """The code of each value, −1 for one without."""
        places = self._first_places(values)
        codes = self._codes[places]
        rows = np.flatnonzero((self._values[places] != values) & (codes != _NONE))
        places, values = places[rows], values[rows]
        while len(rows):
            places = (places + 1) & (len(self._codes) - 1)
            codes[rows] = there = self._codes[places]
            left = (self._values[places] != values) & (there != _NONE)
            rows, places, values = rows[left], places[left], values[left]
        return codes

    def add(self, values: Ints, codes: Codes) -> bool:
        """Add values that are new here, each once; none is refused."""
        self._count += len(values)
        if 2 * self._count > len(self._codes):
            used = self._codes != _NONE
            values = np.concatenate([self._values[used], values])
            codes = np.concatenate([self._codes[used], codes])
            size = 1 << (2 * self._count).bit_length()
            self._values, self._codes = np.zeros(size, np.int64), np.full(size, _NONE)
            values, codes = self._put_into_empty(values, codes)
        self._put(values, codes)
        return True

    def _put_into_empty(self, values: Ints, codes: Codes) -> tuple[Ints, Codes]:
        """In the order of their places each takes its own, or the one behind that of the value
        before; those are left that would stand behind the end."""
        places = self._first_places(values)
        order = stable_order(places)
        turn = np.arange(len(order))
        places = np.maximum.accumulate(places[order] - turn) + turn
        inside = int(np.searchsorted(places, len(self._codes)))
        places = places[:inside]
        self._values[places], self._codes[places] = values[order[:inside]], codes[order[:inside]]
        return values[order[inside:]], codes[order[inside:]]

    def _put(self, values: Ints, codes: Codes) -> None:
        places = self._first_places(values)
        order = stable_order(places)  # neighbours in memory are read and written much faster
        places = places[order]
        values, codes = values[order], codes[order]
        while len(codes):
            free = np.flatnonzero(self._codes[places] == _NONE)
            own, new = places[free], codes[free]
            self._codes[own] = new  # one of those that want the same place
            first = self._codes[own] == new
            self._values[own[first]] = values[free[first]]
            left = np.ones(len(codes), np.bool_)
            left[free[first]] = False
            values, codes, places = values[left], codes[left], places[left]
            places = (places + 1) & (len(self._codes) - 1)

    def _first_places(self, values: Ints) -> Ints:
        places: Ints = (mixed(values.view(np.uint64)) & np.uint64(len(self._codes) - 1)).view(
            np.int64
        )
        return places


def mixed(words: Words) -> Words:
    """Words that are spread over all their bits."""
    found: Words = words * _FACTOR
    found ^= found >> _SHIFT
    found *= _FACTOR
    found ^= found >> _SHIFT
    return found


# Codes of integers that lie close together: a table by value, several times faster than hashing.
#
# Integers that are spread too widely for a table are left to others.

_SPAN = 4096  # of a table that is always allowed
_SPARSE = 16  # how many places a longer table may have for each value


class DenseKeys:
    """
    >>> table = DenseKeys()
    >>> table.add(np.array([7, 5]), np.array([0, 1]))
    True
    >>> table.find(np.array([5, 6, 7]))
    array([ 1, -1,  0])
    """

    def __init__(self) -> None:
        self._base = 0
        self._codes: Codes = np.empty(0, np.int64)  # by value, from the base on
        self._count = 0
        self._lowest, self._highest = 0, -1

    def find(self, values: Ints) -> Codes:
        """The code of each value, −1 for one without."""
        places = values - self._base if self._base else values
        unsigned = places.view(np.uint64)  # negative ones are above all others
        if int(unsigned.max()) < len(self._codes):
            return self._codes[places]
        codes: Codes = np.full(len(values), -1)
        inside = np.flatnonzero(unsigned < len(self._codes))
        codes[inside] = self._codes[places[inside]]
        return codes

    def add(self, values: Ints, codes: Codes) -> bool:
        """Add values that are new here; false if they lie too far apart."""
        if not len(values):
            return True
        lowest, highest = extremes(values)
        if self._count:
            lowest, highest = min(lowest, self._lowest), max(highest, self._highest)
        self._count += len(values)
        span = highest - lowest + 1
        if span > max(_SPAN, _SPARSE * self._count):
            return False
        if lowest < self._base or highest >= self._base + len(self._codes):
            self._lengthen(max(INT64_MIN, lowest - span // 2), 2 * span)
        self._lowest, self._highest = lowest, highest
        self._codes[values - self._base] = codes
        return True

    def _lengthen(self, base: int, size: int) -> None:
        """There is room on both sides, so that this is rarely needed."""
        used = self._codes[self._lowest - self._base : self._highest + 1 - self._base]
        longer = np.full(size, -1, np.int64)
        at = self._lowest - base
        longer[at : at + len(used)] = used
        self._base, self._codes = base, longer


# Whole numbers, numbered as they are first seen.
#
# Large batches go through a table as a whole.  Few rows are looked up one by one in a dict, which
# is faster for them; table and dict catch up with each other when they are used.  Pairs
# of numbers are numbered in the same way.

SMALL = 32  # rows that are looked up one by one
_CAUGHT_UP = 128  # values added to the dict for every look-up of few rows
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
        """Values by code; that of a code without a value means nothing."""
        return self._values[: self._size]

    def code_without_value(self) -> int:
        """A code that no number has, always the same."""
        if self._without == _NONE:
            self._without = self._size
            self._append(np.zeros(1, np.int64))
        return self._without

    def encode(self, values: Ints) -> Codes:
        """A code for each value."""
        if len(values) <= SMALL and self._prefer_dict():
            return self._one_by_one(values)
        return self._all_at_once(values)

    def _prefer_dict(self) -> bool:
        """Whether to look rows up in the dict: not for a few rows now and then, if very many values
        would have to be added to it first."""
        self._times_asked += 1
        return self._size - self._in_dict <= _CAUGHT_UP * self._times_asked

    def _one_by_one(self, values: Ints) -> Codes:
        if self._in_dict < self._size:
            codes = self._from(self._in_dict)
            self._codes.update(zip(self._values[codes].tolist(), codes.tolist(), strict=True))
            self._in_dict = self._size
        return np.fromiter(map(self._code, values.tolist()), np.int64, len(values))

    def _all_at_once(self, values: Ints) -> Codes:
        """Codes of values in the form of the table."""
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
        if len(left) <= SMALL and self._prefer_dict():
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


# Codes of many texts: a table by hash, which stays from batch to batch.
#
# Arrow would hash all known texts again for every batch.  Texts that are long, or that share a hash
# with another one, are left to it.

_WORD = 8  # bytes
_LONGEST = 64  # bytes of a text


class TextKeys:
    """
    >>> table = TextKeys()
    >>> table.add(pa.array(["b", "abcdefghij"]), np.array([0, 1]))
    True
    >>> table.find(pa.array(["abcdefghij", "a", "b"]))
    array([ 1, -1,  0])
    """

    def __init__(self) -> None:
        self._by_hash = HashedKeys()
        self._lengths: Ints = np.zeros(0, np.int64)  # by code; −1 for codes that are not here
        self._words: list[Words] = []

    def find(self, texts: pa.Array) -> Codes | None:
        """The code of each text, −1 for one without; None if a text is too long, or shares its hash
        with another."""
        taken = _taken_apart(texts)
        if taken is None:
            return None
        lengths, words = taken
        codes = self._by_hash.find(_hashes(lengths, words).view(np.int64))
        return codes if self._are_equal(codes, lengths, words) else None

    def add(self, texts: pa.Array, codes: Codes) -> bool:
        """Add texts that are new here, each once; false if they cannot be."""
        taken = _taken_apart(texts)
        if taken is None:
            return False
        lengths, words = taken
        size = int(codes.max(initial=-1)) + 1
        self._lengths = grown(self._lengths, size, -1)
        while len(self._words) < len(words):
            self._words.append(np.zeros(len(self._lengths), np.uint64))
        self._words = [grown(each, size, 0) for each in self._words]
        self._lengths[codes] = lengths
        for own, given in zip(self._words, words, strict=False):
            own[codes] = given
        self._by_hash.add(_hashes(lengths, words).view(np.int64), codes)
        return True

    def _are_equal(self, codes: Codes, lengths: Ints, words: list[Words]) -> bool:
        """Whether all that were found are not only alike in their hashes."""
        found: Mask = codes >= 0
        if not found.all():
            codes, lengths = codes[found], lengths[found]
            words = [each[found] for each in words]
        if len(codes) == 0:
            return True
        if len(words) > len(self._words) or (self._lengths[codes] != lengths).any():
            return False
        pairs = zip(self._words, words, strict=False)
        return all(bool((own[codes] == given).all()) for own, given in pairs)


def _taken_apart(texts: pa.Array) -> tuple[Ints, list[Words]] | None:
    """The lengths of texts, and their bytes eight by eight with zeros behind; None if some are too
    long."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    lengths = np.diff(ends)
    longest = int(lengths.max(initial=0))
    if longest > _LONGEST:
        return None
    begin, end = int(ends[0]), int(ends[-1])
    text = np.zeros(end - begin + _LONGEST + _WORD, np.uint8)
    if begin < end:
        text[: end - begin] = np.frombuffer(data, np.uint8, end - begin, begin)
    at_every_byte = np.ndarray((len(text) - _WORD + 1,), "<u8", text, strides=(1,))
    words = []
    for skipped in range(0, longest, _WORD):
        left = np.clip(lengths - skipped, 0, _WORD)
        words.append(at_every_byte[ends[:-1] - begin + skipped] & _MASKS[left])
    return lengths, words


def _hashes(lengths: Ints, words: list[Words]) -> Words:
    hashes = lengths.astype(np.uint64)
    for each in words:
        # a word of zeros changes nothing, so that longer texts in the same batch make no difference
        hashes = np.where(each == 0, hashes, mixed(hashes ^ each))
    return mixed(hashes)


_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(_WORD + 1)], np.uint64)
