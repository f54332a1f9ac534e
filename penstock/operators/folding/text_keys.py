"""Codes of many texts: a table by hash, which stays from batch to batch.

Arrow would hash all known texts again for every batch.  Texts that are long, or that share a hash
with another one, are left to it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.operators.folding.hashed_keys import HashedKeys, Words, mixed
from penstock.operators.folding.scatter import grown

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
        """The code of each text, −1 for one without; None if they cannot be told."""
        taken = _taken_apart(texts)
        if taken is None:
            return None
        lengths, words = taken
        codes = self._by_hash.find(_hashes(lengths, words).view(np.int64))
        return codes if self._are_equal(codes, lengths, words) else None

    def add(self, texts: pa.Array, codes: Codes) -> bool:
        """Take in texts that are new here, each once; false if they cannot be."""
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
        # a word of zeros changes nothing, so that longer texts beside one make no difference
        hashes = np.where(each == 0, hashes, mixed(hashes ^ each))
    return mixed(hashes)


_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(_WORD + 1)], np.uint64)
