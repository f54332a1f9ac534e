"""A stream of bytes in which whatever is not UTF-8 is marked, so that Arrow can read on."""

from __future__ import annotations

import codecs
import re

import pyarrow as pa

# Two noncharacters in a row: Unicode keeps them out of text that is passed on.
MARK = "\ufdd0\ufdef"
_ESCAPED = re.compile("[\udc80-\udcff]+")


class Utf8Marker:
    """The transformation of such a stream; `damaged` tells whether there was anything to mark.

    >>> marker = Utf8Marker()
    >>> marker(b"gr\\xc3") + marker(b"\\xbcn") + marker(b"")
    b'gr\\xc3\\xbcn'
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.damaged = False
        self.read = 0  # bytes

    def __call__(self, piece: bytes) -> bytes:
        """The next piece; the empty one is the end and brings out what was held back."""
        self.read += len(piece)
        text = self._decoder.decode(bytes(piece), final=not len(piece))
        try:
            return text.encode()
        except UnicodeEncodeError:
            self.damaged = True
            return _ESCAPED.sub(MARK, text).encode()

    def over(self, stream: pa.NativeFile) -> pa.NativeFile:
        return pa.TransformInputStream(stream, self)


def unmarked(text: str) -> str:
    """The text with the usual replacement character for what was not UTF-8."""
    return text.replace(MARK, "\ufffd")
