"""A socket that sends JSON lines: Penstock connects, and reads until the other side hangs up."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from penstock.errors import SourceError
from penstock.io.formats.json_lines import LONGEST_LINE, SPACES, LinesAlone, read_block
from penstock.io.formats.long_rows import LineCutter, LongRow, written_limit
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Attention, Chunk, LiveSource, glances, nothing
from penstock.model.types import Schema

_BLOCK = 1 << 18  # bytes that are taken at once, if they are there
_CONNECTING = 10  # seconds


@dataclass(frozen=True, slots=True)
class SocketSource(LiveSource):
    """JSON lines from a TCP server, until it closes the connection."""

    host: str
    port: int
    row_limit: int | None = None  # bytes of a line; None: `LONGEST_LINE`

    def describe(self) -> str:
        return f"SOCKET '{self._address}'{written_limit(self.row_limit)}"

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return self.listen(schema, rejects, Attention())

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        rows_before, alone = 0, LinesAlone(schema)
        limit = self.row_limit or LONGEST_LINE
        for lines in self._lines(attention, limit):
            if isinstance(lines, LongRow):
                rows_before += 1
                rejects.bad_row("", rows_before, None, lines.reason(limit), lines.content)
                continue
            stripped = lines.strip(SPACES).replace(b"\r\n", b"\n")
            if not stripped:
                yield nothing(schema)
                continue
            chunk, rows = None if b"\n" in stripped else alone.read(stripped), 1
            if chunk is None:
                batch, rows = read_block(stripped, schema, "", rows_before, rejects)
                chunk = Chunk(batch)
            rows_before += rows
            yield chunk

    def _lines(self, attention: Attention, limit: int) -> Iterator[bytes | LongRow]:
        """Yield whole lines as they come, and lines that are too long; empty bytes if none came for
        a while."""
        with self._connected() as connection, _shut_down_when_left(connection, attention):
            receiver = _Receiver(connection, attention)
            lines = LineCutter(limit)
            while not attention.bell.closed:
                try:
                    data = receiver.receive()
                except OSError as error:
                    raise SourceError(
                        f"the connection to {self._address} broke off: {error.strerror}"
                    ) from error
                if data is None:
                    yield b""
                    continue
                if not data:
                    break
                yield from lines.cut(data)
            yield from lines.rest()

    def _connected(self) -> socket.socket:
        try:
            connection = socket.create_connection((self.host, self.port), timeout=_CONNECTING)
        except OSError as error:
            raise SourceError(
                f"cannot connect to {self._address}: {error.strerror or error}",
                expected="somebody who listens there and sends JSON lines",
            ) from error
        connection.settimeout(None)
        return connection

    @property
    def _address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class _Receiver:
    """Receives from a socket with a timeout of the kernel: asking first whether there are bytes to
    read would take as long again, because Python lets other threads work before either call."""

    def __init__(self, connection: socket.socket, attention: Attention) -> None:
        self._connection = connection
        self._attention = attention
        self._patience: float | None = None

    def receive(self) -> bytes | None:
        """Receive bytes: empty at the end of the stream, None when the patience of the reader is
        over."""
        for left in glances(self._attention.patience()):
            self._set_timeout(left)
            with suppress(BlockingIOError):
                return self._connection.recv(_BLOCK)
            if self._attention.bell.closed:
                return b""
        return None

    def _set_timeout(self, seconds: float | None) -> None:
        if seconds == self._patience:
            return
        self._patience = seconds
        microseconds = 0 if seconds is None else max(1, round(seconds * 1e6))  # 0: for ever
        limit = struct.pack("@ll", *divmod(microseconds, 1_000_000))
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


@contextmanager
def _shut_down_when_left(connection: socket.socket, attention: Attention) -> Iterator[None]:
    """Shut the connection down when the reader leaves, which wakes the thread that receives."""

    def hang_up() -> None:
        with suppress(OSError):  # the other side was faster
            connection.shutdown(socket.SHUT_RDWR)

    with attention.bell.closing(hang_up):
        yield
