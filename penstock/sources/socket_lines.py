"""A socket that sends JSON lines: Penstock connects, and reads until the other side hangs up."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from penstock.errors import SourceError
from penstock.model.schema import Schema
from penstock.sources.bell import glances
from penstock.sources.formats.json_lines import LONGEST_LINE, read_block
from penstock.sources.formats.json_values import SPACES
from penstock.sources.live import Attention, LiveSource, nothing
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk

_BLOCK = 1 << 18  # bytes that are taken at once, if they are there
_CONNECTING = 10  # seconds


@dataclass(frozen=True, slots=True)
class SocketSource(LiveSource):
    host: str
    port: int

    def describe(self) -> str:
        return f"SOCKET '{self._address}'"

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return self.listen(schema, rejects, Attention())

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        rows_before = 0
        for lines in self._lines(attention):
            stripped = lines.strip(SPACES).replace(b"\r\n", b"\n")
            if not stripped:
                yield nothing(schema)
                continue
            batch, rows = read_block(stripped, schema, "", rows_before, rejects)
            rows_before += rows
            yield Chunk(batch)

    def _lines(self, attention: Attention) -> Iterator[bytes]:
        """Whole lines as they come; nothing at all if none came for a while."""
        with self._connected() as connection, _Ear(connection, attention) as ear:
            pending: list[bytes] = []
            size = 0
            while not attention.bell.closed:
                if not ear.hears():
                    yield b""
                    continue
                try:
                    data = connection.recv(_BLOCK)
                except OSError as error:
                    raise SourceError(
                        f"the connection to {self._address} broke off: {error.strerror}"
                    ) from error
                if not data:
                    break
                cut = data.rfind(b"\n") + 1
                if cut:
                    yield b"".join([*pending, data[:cut]])
                    pending, size = [], 0
                pending.append(data[cut:])
                size += len(data) - cut
                if size > LONGEST_LINE:
                    raise SourceError(
                        f"{self._address} sends a line of more than {LONGEST_LINE >> 20} MB",
                        expected="one JSON object per line",
                    )
            yield b"".join(pending)  # a last line that does not end like one

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


class _Ear:
    """Waits until a socket has something to say, or its reader has left."""

    def __init__(self, connection: socket.socket, attention: Attention) -> None:
        self._connection = connection
        self._attention = attention

    def __enter__(self) -> _Ear:
        with ExitStack() as opened:
            self._left, leave = map(opened.enter_context, socket.socketpair())
            self._selector = opened.enter_context(selectors.DefaultSelector())
            for each in (self._connection, self._left):
                self._selector.register(each, selectors.EVENT_READ)
            opened.enter_context(self._attention.bell.closing(lambda: _send(leave)))
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def hears(self) -> bool:
        for left in glances(self._attention.patience()):
            ready = self._selector.select(left)
            if ready or self._attention.bell.closed:
                return any(key.fileobj is self._connection for key, _ in ready)
        return False


def _send(leave: socket.socket) -> None:
    leave.send(b"!")
