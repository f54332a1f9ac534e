"""Codes of many texts: a table by hash, which stays from batch to batch.

Arrow would hash all known texts again for every batch.  Texts that are long, or that share a hash
with another one, are left to it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.operators.folding.scatter import grown

_WORD = 8  # bytes
_LONGEST = 64  # bytes of a text
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_EMPTY = -1
_Words = npt.NDArray[np.uint64]


class TextKeys:
    """
    >>> table = TextKeys()
    >>> table.add(pa.array(["b", "abcdefghij"]), np.array([0, 1]))
    True
    >>> table.find(pa.array(["abcdefghij", "a", "b"]))
    array([ 1, -1,  0])
    """

    def __init__(self) -> None:
        self._slots: Codes = np.full(1024, _EMPTY)
        self._count = 0
        self._hashes: _Words = np.zeros(1, np.uint64)  # by code, as all that follow
        self._lengths: Ints = np.zeros(0, np.int64)  # −1 for codes that are not here
        self._words: list[_Words] = []

    def find(self, texts: pa.Array) -> Codes | None:
        """The code of each text, −1 for one without; None if they cannot be told."""
        taken = _taken_apart(texts)
        if taken is None:
            return None
        lengths, words = taken
        codes = self._looked_up(_hashes(lengths, words))
        return codes if self._are_equal(codes, lengths, words) else None

    def add(self, texts: pa.Array, codes: Codes) -> bool:
        """Take in texts that are new here, each once; false if they cannot be."""
        taken = _taken_apart(texts)
        if taken is None:
            return False
        lengths, words = taken
        size = int(codes.max(initial=-1)) + 1
        self._hashes, self._lengths = grown(self._hashes, size, 0), grown(self._lengths, size, -1)
        while len(self._words) < len(words):
            self._words.append(np.zeros(len(self._hashes), np.uint64))
        self._words = [grown(each, size, 0) for each in self._words]
        self._hashes[codes], self._lengths[codes] = _hashes(lengths, words), lengths
        for own, given in zip(self._words, words, strict=False):
            own[codes] = given
        self._count += len(codes)
        if 2 * self._count > len(self._slots):
            self._slots = np.full(1 << (4 * self._count).bit_length(), _EMPTY)
            codes = np.flatnonzero(self._lengths >= 0)
        self._put(codes)
        return True

    def _put(self, codes: Codes) -> None:
        places = self._first_places(self._hashes[codes])
        while len(codes):
            free = self._slots[places] == _EMPTY
            self._slots[places[free]] = codes[free]  # one of those that want the same place
            left = self._slots[places] != codes
            codes, places = codes[left], self._next(places[left])

    def _looked_up(self, hashes: _Words) -> Codes:
        places = self._first_places(hashes)
        found = self._slots[places]
        rows = self._not_decided(found, hashes)
        places = places[rows]
        while len(rows):
            places = self._next(places)
            found[rows] = there = self._slots[places]
            left = self._not_decided(there, hashes[rows])
            rows, places = rows[left], places[left]
        return found

    def _not_decided(self, found: Codes, hashes: _Words) -> Ints:
        """Where another one stands, so that the next place may have it."""
        return np.flatnonzero((found != _EMPTY) & (self._hashes[found] != hashes))

    def _first_places(self, hashes: _Words) -> Ints:
        places: Ints = (hashes & np.uint64(len(self._slots) - 1)).astype(np.int64)
        return places

    def _next(self, places: Ints) -> Ints:
        following: Ints = (places + 1) & (len(self._slots) - 1)
        return following

    def _are_equal(self, codes: Codes, lengths: Ints, words: list[_Words]) -> bool:
        """Whether all that were found are not only alike in their hashes."""
        found: Mask = codes != _EMPTY
        if not found.all():
            codes, lengths = codes[found], lengths[found]
            words = [each[found] for each in words]
        if len(codes) == 0:
            return True
        if len(words) > len(self._words) or (self._lengths[codes] != lengths).any():
            return False
        pairs = zip(self._words, words, strict=False)
        return all(bool((own[codes] == given).all()) for own, given in pairs)


def _taken_apart(texts: pa.Array) -> tuple[Ints, list[_Words]] | None:
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


def _hashes(lengths: Ints, words: list[_Words]) -> _Words:
    hashes = lengths.astype(np.uint64)
    for each in words:
        # a word of zeros changes nothing, so that longer texts beside one make no difference
        hashes = np.where(each == 0, hashes, _mixed(hashes ^ each))
    return _mixed(hashes)


def _mixed(hashes: _Words) -> _Words:
    mixed = hashes * _FACTOR
    mixed ^= mixed >> _SHIFT
    mixed *= _FACTOR
    mixed ^= mixed >> _SHIFT
    return mixed


_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(_WORD + 1)], np.uint64)
