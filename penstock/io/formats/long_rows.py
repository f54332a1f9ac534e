"""Rows that are longer than a row may be: left out piece by piece, so that memory stays bounded.

Lines are cut at their ends (`LineCutter`); rows of CSV may have line ends between quotes, so there
a row that is too long is replaced by a short one that cannot be one of the file (`CsvRowLimit`),
and the numbers of all other rows stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.io.sources.rejects import row_as_json

SIZE_UNITS = {"BYTES": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SHOWN = 200  # bytes of a row that is left out
_SIGN = "\ufdd2\ufdee"  # noncharacters, as in utf8.py
# Cells with their commas, and rows with their ends, as Arrow sees them: a quote opens at the
# beginning of a cell only, and what follows behind the closing one belongs to the cell.
_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"[^,\r\n]*+'
_CELLS = re.compile(rb'(?:(?:[^",\r\n][^,\r\n]*+|' + _QUOTED + rb")?,)*+")
_ROWS = re.compile(rb'(?:(?:[^",\r\n][^,\r\n]*+|' + _QUOTED + rb"|,)*+[\r\n])*+")
_PLAIN = re.compile(rb"[^,\r\n]*+")
_TO_QUOTE = re.compile(rb'[^"]*+(?:""[^"]*+)*+')


@dataclass(frozen=True, slots=True)
class LongRow:
    """A row that is longer than allowed: its size, and how it begins."""

    size: int
    head: bytes  # its first bytes
    end: bytes = b"\n"
    open_quote: bool = False

    def reason(self, limit: int) -> str:
        reason = f"the row has {self.size:,} bytes, and a row may have {limit:,} (ROW LIMIT)"
        if self.open_quote:
            reason += ', because a quote (") is not closed: the row takes the rest of the file'
        return reason

    @property
    def content(self) -> str:
        return row_as_json(self.head.decode(errors="replace") + "…")


def written_limit(limit: int | None) -> str:
    """Format the limit as SQL writes it.

    >>> written_limit(None), written_limit(3 << 20), written_limit(1000)
    ('', ' ROW LIMIT 3 MB', ' ROW LIMIT 1000 BYTES')
    """
    if limit is None:
        return ""
    unit = next(name for name, size in reversed(SIZE_UNITS.items()) if limit % size == 0)
    return f" ROW LIMIT {limit // SIZE_UNITS[unit]} {unit}"


class LineCutter:
    """Cuts bytes into whole lines, many at a time, and the lines that are too long.

    >>> lines = LineCutter(3)
    >>> [each if isinstance(each, bytes) else each.size for each in lines.cut(b"a\\nbcde\\nf\\ng")]
    [b'a\\n', 4, b'f\\n']
    >>> list(lines.cut(b"hi")), list(lines.rest())
    ([], [b'ghi'])
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0  # of the line that has begun
        self._head: bytes | None = None  # if that is too long

    def cut(self, data: bytes) -> Iterator[bytes | LongRow]:
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return
        begin = 0
        if self._head is not None or self._size + end > self._limit:
            begin = data.find(b"\n") + 1
            self._keep(data[: begin - 1])
            if self._head is not None:
                yield from self._begun(b"\n")
            else:
                yield b"".join([*self._pending, b"\n"])
                self._forget()
            yield from self._whole(data, begin, end)
        else:
            yield b"".join([*self._pending, data[:end]])
            self._forget()
        self._keep(data[end:])

    def rest(self) -> Iterator[bytes | LongRow]:
        """Return a last line without a line end."""
        if self._head is not None:
            yield from self._begun(b"")
        elif self._size:
            yield b"".join(self._pending)
            self._forget()

    def _whole(self, data: bytes, begin: int, end: int) -> Iterator[bytes | LongRow]:
        good = begin
        while begin < end:
            last = data.rfind(b"\n", begin, begin + self._limit + 1) + 1
            if last > 0:
                begin = min(last, end)
                continue
            if good < begin:
                yield data[good:begin]
            last = data.find(b"\n", begin) + 1
            yield LongRow(last - 1 - begin, data[begin : min(begin + _SHOWN, last - 1)])
            begin = good = last
        if good < end:
            yield data[good:end]

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._head is None and data:
            self._pending.append(data)
            if self._size > self._limit:
                self._head = b"".join(self._pending)[:_SHOWN]
                self._pending = []

    def _begun(self, end: bytes) -> Iterator[LongRow]:
        assert self._head is not None
        yield LongRow(self._size, self._head, end)
        self._forget()

    def _forget(self) -> None:
        self._pending, self._size, self._head = [], 0, None


class CsvRowLimit:
    """Transforms a stream of CSV: rows that are too long are replaced, and recorded."""

    def __init__(self, limit: int, columns: int) -> None:
        self.limit = limit
        self._columns = columns
        self._held = b""  # the beginning of a row
        self._left_out: list[LongRow] = []
        self._skipping = False
        self._inside = b""  # in which part of a cell of the row that is skipped: '"', 'a' or none
        self._head, self._size = b"", 0

    def over(self, stream: pa.NativeFile) -> pa.NativeFile:
        return pa.TransformInputStream(stream, self)

    def of(self, row: str) -> LongRow | None:
        """Return the long row that a row of the stream stands in for; None for a row of the
        file."""
        if not row.startswith(_SIGN):
            return None
        return self._left_out[int(row.removeprefix(_SIGN).partition(",")[0])]

    def __call__(self, piece: bytes) -> bytes:
        """Transform the next piece; the empty one is the end, and returns the bytes held back."""
        data, at_end = self._held + bytes(piece), not len(piece)
        self._held = b""
        found, begin = [], 0
        while begin < len(data) or (at_end and self._skipping):
            if self._skipping:
                begin = self._skip(data, begin, at_end)
                if not self._skipping:
                    found.append(self._stand_in())
                    continue
                break
            end = self._last_end(data, begin)
            if end > begin:
                found.append(data[begin:end])
                begin = end
            elif len(data) - begin <= self.limit:
                if at_end:
                    found.append(data[begin:])
                else:
                    self._held = data[begin:]
                break
            else:
                self._skipping, self._inside, self._size = True, b"", 0
                self._head = data[begin : begin + _SHOWN]
        return b"".join(found)

    def _last_end(self, data: bytes, begin: int) -> int:
        """Position behind the last row that ends within the limit."""
        stop = min(len(data), begin + self.limit + 1)
        if data.find(b'"', begin, stop) < 0:
            return (
                max(data.rfind(b"\n", begin, stop), data.rfind(b"\r", begin, stop), begin - 1) + 1
            )
        matched = _ROWS.match(data, begin, stop)
        return begin if matched is None else matched.end()

    def _skip(self, data: bytes, begin: int, at_end: bool) -> int:
        """Skip a row that is too long. Returns the position of its end, or the end of the data."""
        at = begin
        while at < len(data):
            if self._inside == b"?":  # behind a quote: another one, or the end of the text
                self._inside = b'"' if data[at : at + 1] == b'"' else b"a"
                at += self._inside == b'"'
            elif self._inside == b'"':
                at = _end_of(_TO_QUOTE, data, at)
                if at < len(data):
                    at, self._inside = at + 1, b"?"
            elif self._inside == b"a":
                at = _end_of(_PLAIN, data, at)
                if at < len(data):
                    self._inside = b""
            elif data[at] in b"\r\n":
                self._skipping = False
                break
            else:
                at = _end_of(_CELLS, data, at + (data[at : at + 1] == b","))
                if data[at : at + 1] == b'"':
                    at, self._inside = at + 1, b'"'
                elif at < len(data) and data[at] not in b"\r\n,":
                    self._inside = b"a"
        self._size += at - begin
        if at_end:
            self._skipping = False
        return at

    def _stand_in(self) -> bytes:
        """Make a row with too few cells, or too many."""
        number = len(self._left_out)
        self._left_out.append(LongRow(self._size, self._head, b"", self._inside == b'"'))
        comma = "," if self._columns == 1 else ""
        return f"{_SIGN}{number}{comma}\n".encode()


def _end_of(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    matched = pattern.match(data, at)
    assert matched is not None
    return matched.end()
