"""Rows that come asynchronously: an asynchronous iterable of dicts, tuples or lists."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from penstock.errors import EngineError, PenstockError, SourceError
from penstock.model.schema import Schema
from penstock.sources.live import Attention, LiveSource, nothing
from penstock.sources.once import OneReading
from penstock.sources.pumps import Host, Pump, pump_of, running_loop
from penstock.sources.rejects import StreamRejects
from penstock.sources.rows import RowChunks
from penstock.sources.source import Chunk

HOST: ContextVar[Host | None] = ContextVar("HOST", default=None)
"""The loop on which a run was started; without one, a source has a loop of its own."""


@dataclass(frozen=True, slots=True)
class AsyncSource(LiveSource):
    open: _Once | _Made
    name: str
    home: asyncio.AbstractEventLoop | None = None  # on which the stream was declared

    def host(self, started_on: Host | None) -> Host | None:
        """Where rows are fetched: where they were declared, if that runs in another thread, or
        where the run was started."""
        if self.home is not None and self.home.is_running() and self.home is not running_loop():
            waits = started_on is not None and started_on.loop is self.home and started_on.waits
            return Host(self.home, waits)
        return started_on

    @property
    def once(self) -> bool:
        return isinstance(self.open, _Once)

    @property
    def exclusive(self) -> bool:
        return self.open.exclusive

    def describe(self) -> str:
        return f"ASYNC ({self.name})"

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return self.listen(schema, rejects, Attention())

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        with self.open.opened(rejects.stream) as rows:
            yield from self._listen(rows, schema, rejects, attention)

    def _listen(
        self,
        rows: AsyncIterable[object],
        schema: Schema,
        rejects: StreamRejects,
        attention: Attention,
    ) -> Iterator[Chunk]:
        pump = pump_of(rows, self.host(HOST.get()))
        read, chunks = 0, RowChunks(schema, rejects)
        try:
            with attention.bell.closing(pump.leave):
                while not pump.left:
                    taken = pump.take()
                    if taken:
                        read += len(taken)
                        chunk = chunks.of(taken)
                        if chunk is not None:
                            yield chunk
                    elif pump.ended:
                        _check(pump, read)
                        return
                    elif not pump.wait(attention.patience()):
                        yield nothing(schema)
        finally:
            pump.close()


def async_source(data: Any, name: str, replayable: bool | None = None) -> AsyncSource | None:
    """A source for an asynchronous iterable, or for a function that makes them; None for anything
    else."""
    if isinstance(data, AsyncIterator):
        if replayable:
            raise SourceError(
                f"a {name} can be read once, so it is not replayable",
                hint="pass the function that makes the generator, without calling it",
            )
        return AsyncSource(_Once(lambda: data), name, running_loop())
    if isinstance(data, AsyncIterable):
        make: Callable[[], AsyncIterable[object]] = lambda: data  # noqa: E731
    elif inspect.isasyncgenfunction(data):
        make = data
    else:
        return None
    opened = _Once(make) if replayable is False else _Made(make, bool(replayable))
    return AsyncSource(opened, name, running_loop())


class _Once:
    """Opens what can be read only once."""

    exclusive = False  # a second reading is refused anyway

    def __init__(self, make: Callable[[], AsyncIterable[object]]) -> None:
        self._make: Callable[[], AsyncIterable[object]] | None = make

    @contextmanager
    def opened(self, stream: str) -> Iterator[AsyncIterable[object]]:  # noqa: ARG002
        make, self._make = self._make, None
        if make is None:
            raise SourceError(
                "the asynchronous rows have been read already",
                hint="pass the function that makes the generator, without calling it",
            )
        yield make()


class _Made:
    """Opens what a function makes, one reading at a time unless it is `replayable`."""

    def __init__(self, make: Callable[[], AsyncIterable[object]], replayable: bool) -> None:
        self._make = make
        self.exclusive = not replayable
        self._one = OneReading()

    @contextmanager
    def opened(self, stream: str) -> Iterator[AsyncIterable[object]]:
        with self._one.of(stream) if self.exclusive else nullcontext():
            yield self._make()


def _check(pump: Pump, read: int) -> None:
    """Whether the rows have come to their end, or broken off."""
    try:
        pump.result()
    except PenstockError:
        raise
    except (asyncio.CancelledError, CancelledError) as error:
        raise SourceError(
            f"the data broke off after item {read}: its task was cancelled, or its event loop has"
            " ended"
        ) from error
    except Exception as error:
        raise SourceError(
            f"the data broke off after item {read}: {type(error).__name__}: {error}"
        ) from error


def refuse_to_hold_up(sources: Iterable[object], started_on: Host | None) -> None:
    """Refuse a wait that would block the event loop on which rows are fetched."""
    loop = running_loop()
    for source in sources:
        if loop is None or not isinstance(source, AsyncSource):
            continue
        at_home = source.home is loop or (source.home is None and _is_of(started_on, loop))
        if at_home:
            raise EngineError(
                "to wait here would hold up the event loop on which rows are fetched",
                expected="a wait that lets the loop run",
                hint="await asyncio.to_thread(live.wait), or of what else is waited for",
            )


def _is_of(host: Host | None, loop: asyncio.AbstractEventLoop) -> bool:
    return host is not None and host.loop is loop
