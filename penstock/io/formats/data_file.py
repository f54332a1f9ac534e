"""A file to read: its place on disk, its name in messages, and its failures as `SourceError`s."""

from __future__ import annotations

import io
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import pyarrow as pa

from penstock.errors import SourceError
from penstock.io.access import Allowed, refuse_file
from penstock.io.sources.source import FileSeen

_HEAD = 4096
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


class Meter:
    """Measures how many bytes of a file, before decompression, the emitted rows take."""

    def __init__(self) -> None:
        self._file: pa.NativeFile | None = None
        self._position = 0
        self._parsed = 0  # bytes of text
        self._share = 1.0  # of what has been read: a reader may be far ahead of its rows

    def watch(self, file: pa.NativeFile) -> None:
        self._file = file

    def set(self, position: int) -> None:
        self._position = position

    def parsed(self, text: int, read: int) -> None:
        """Count `text` bytes of emitted rows, of the `read` bytes that have been parsed."""
        self._parsed += text
        self._share = min(1.0, self._parsed / read) if read else 1.0

    def leave(self) -> None:
        """Close the file, and keep its last position."""
        self._position, file, self._file = self.position, self._file, None
        if file is not None:
            file.close()

    @property
    def position(self) -> int:
        if self._file is not None and not self._file.closed:
            with suppress(OSError):  # pipes have none
                self._position = self._file.tell()
        return int(self._position * self._share)


class _Beginning(io.RawIOBase):
    """The first bytes of a file, up to a limit."""

    def __init__(self, file: pa.NativeFile, length: int) -> None:
        self._file = file
        self._left = length

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data: bytes = self._file.read(wanted)
        self._left -= len(data)
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read: up to byte `end`, if given, even if it is longer."""

    path: Path
    name: str
    meter: Meter = field(default_factory=Meter, compare=False)
    allowed: Allowed | None = field(default=None, compare=False)
    end: int | None = None
    row_limit: int | None = field(default=None, compare=False)  # bytes; None: that of the format

    @contextmanager
    def opened(self) -> Iterator[pa.NativeFile]:
        """Open the file, and close it at the end of the block, whatever else still refers to it."""
        stream = self.open()
        try:
            yield stream
        finally:
            self.meter.leave()
            if not stream.closed:
                stream.close()

    def open(self) -> pa.NativeFile:
        """Open the bytes, decompressed if the name ends in .gz, .bz2 or .zst."""
        self.refuse_strange()
        file = pa.OSFile(str(self.path), "rb")
        self.meter.watch(file)
        if self.end is not None:
            return pa.PythonFile(_Beginning(file, self.end), mode="r")
        codec = _CODECS.get(self.path.suffix.lower())
        return file if codec is None else pa.CompressedInputStream(file, codec)

    def refuse_strange(self) -> None:
        """Refuse pipes and devices, when the file is found and again right before it is opened,
        because a link may have been put in its place. Opening them may wait for ever, and no reader
        can read their beginning twice."""
        if self.allowed is not None and not self.allowed.file(self.path):
            raise refuse_file(self.allowed, self.name)
        try:
            mode = self.path.stat().st_mode
        except OSError:
            return  # which is said when it is opened
        if not stat.S_ISREG(mode):
            raise SourceError(
                f"{self.name} is not a regular file",
                expected="a file with an end, and no pipe or device",
                hint="FROM SOCKET 'host:port' for rows that are still to come",
            )

    @property
    def is_compressed(self) -> bool:
        return self.path.suffix.lower() in _CODECS

    @property
    def size(self) -> int:
        """Size in bytes; 0 if it is not known."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def refuse_binary(self, wanted: str) -> None:
        """Refuse a file with NUL bytes, which text does not have; UTF-16, images and other formats
        have them early on."""
        with self.opened() as stream:
            head = stream.read(_HEAD)
        if b"\0" in head:
            raise SourceError(
                f"{self.name} is not a text file: it holds NUL bytes",
                expected=f"{wanted} text in UTF-8",
            )

    @contextmanager
    def reading(self, wanted: str) -> Iterator[None]:
        """Name the file in errors of the system or Arrow."""
        try:
            yield
        except PermissionError as error:
            raise SourceError(
                f"{self.name} may not be read: permission denied",
                hint="chmod +r, or run as a user who may read it",
            ) from error
        except FileNotFoundError as error:
            raise SourceError(f"{self.name} does not exist (any more)") from error
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            first_line = str(error).partition("\n")[0]
            raise SourceError(
                f"{self.name} cannot be read: {first_line}", expected=f"a {wanted} file"
            ) from error


def look_at(file: DataFile, whole: bool) -> FileSeen:
    """Record the size and the first bytes of a file now."""
    with file.reading("data"), file.path.open("rb") as stream:
        return FileSeen(file.size, crc32(stream.read(_HEAD)), whole)


def check_unchanged(file: DataFile, then: FileSeen, text: bool, lines: bool) -> None:
    """Refuse a file that has changed since it was read. A file of `text` may have grown, by whole
    `lines` if its end has no other mark."""
    with file.reading("data"), file.path.open("rb") as stream:
        head = crc32(stream.read(min(_HEAD, then.size)))
        stream.seek(max(0, then.size - then.left - 1))
        last = stream.read(1)
    grown = file.size > then.size
    ends = last in (b"\n", b"\r", b"") or then.size == then.left
    may_grow = text and not file.is_compressed and (ends or not lines)
    if file.size < then.size or head != then.head or (then.whole and grown and not may_grow):
        changed = f"it had {then.size:,} bytes, and has {file.size:,}"
        if file.size >= then.size and head != then.head:
            changed = "it does not begin as it did"
        raise SourceError(
            f"{file.name} has changed since it was read: {changed}",
            expected="a file that is as it was, or to which lines have been appended",
            hint="put new rows into new files, or start over with another checkpoint",
        )
