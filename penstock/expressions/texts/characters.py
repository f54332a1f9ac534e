"""Where characters lie in a column of texts, and parts of texts cut at positions in columns."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expressions.columns import validity
from penstock.model.arrays import Ints

_Bytes: TypeAlias = npt.NDArray[np.uint8]


class Characters:
    """The characters of all texts of a column, numbered through from 0."""

    def __init__(self, texts: pa.Array) -> None:
        count = len(texts)
        _, offsets, data = texts.buffers()
        ends = np.zeros(1, np.int32)
        if count:
            ends = np.frombuffer(offsets, np.int32, count + 1, texts.offset * 4)
        self.ends = ends.astype(np.int64) - ends[0]  # of the texts, in bytes; before them, a 0
        self.data: _Bytes = np.empty(0, np.uint8)
        if self.ends[-1]:
            self.data = np.frombuffer(data, np.uint8, self.ends[-1], ends[0])
        is_first = (self.data & 0xC0) != 0x80  # the other bytes of a character begin with 10
        self.before = np.concatenate([[0], np.cumsum(is_first)])  # how many begin before a byte
        self.first_bytes = np.append(np.flatnonzero(is_first), len(self.data))
        self.firsts: Ints = self.before[self.ends[:-1]]
        self.lengths: Ints = np.diff(self.before[self.ends])

    def numbered(self, bytes_: Ints) -> Ints:
        """The numbers, within their texts, of the characters at these bytes of the texts."""
        numbers: Ints = self.before[self.ends[:-1] + bytes_] - self.firsts
        return numbers

    def cut(self, begin: Ints, end: Ints, *inputs: pa.Array | pa.Scalar) -> pa.Array:
        """The characters from `begin` to before `end` of each text; NULL where an input is."""
        begin = np.clip(begin, 0, self.lengths)
        end = np.clip(end, begin, self.lengths)
        first_bytes = self.first_bytes[self.firsts + begin]
        sizes = self.first_bytes[self.firsts + end] - first_bytes
        ends = np.concatenate([[0], np.cumsum(sizes)])
        # For each byte of the result, the byte it comes from.
        origins = np.repeat(first_bytes - ends[:-1], sizes) + np.arange(ends[-1])
        buffers = [
            validity(*inputs),
            pa.py_buffer(ends.astype(np.int32)),
            pa.py_buffer(self.data[origins]),
        ]
        return pa.Array.from_buffers(pa.string(), len(sizes), buffers)
