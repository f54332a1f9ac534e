"""Rows that come asynchronously: an asynchronous iterable of dicts, tuples or lists."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from penstock.errors import PenstockError, SourceError
from penstock.model.schema import Schema
from penstock.sources.bell import Bell
from penstock.sources.live import Attention, LiveSource, nothing
from penstock.sources.rejects import StreamRejects
from penstock.sources.rows import BATCH, read_rows
from penstock.sources.source import Chunk

HOST_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("HOST_LOOP", default=None)
"""The loop that whoever started the run is on; without one, a source has a loop of its own."""


@dataclass(frozen=True, slots=True)
class AsyncSource(LiveSource):
    open: Callable[[], AsyncIterable[object]]
    name: str

    @property
    def once(self) -> bool:
        return isinstance(self.open, _Once)

    def describe(self) -> str:
        return f"ASYNC ({self.name})"

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return self.listen(schema, rejects, Attention())

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        with _loop() as loop:
            pump = _Pump(self.open(), loop)
            rows_before = 0
            try:
                with attention.bell.closing(pump.bell.close):
                    while not pump.bell.closed:
                        rows = pump.take()
                        if rows:
                            batch = read_rows(rows, schema, rows_before, rejects)
                            rows_before += len(rows)
                            if batch.num_rows:
                                yield Chunk(batch)
                        elif pump.ended:
                            _check(pump, rows_before)
                            return
                        elif not pump.bell.wait(attention.patience()):
                            yield nothing(schema)
            finally:
                asyncio.run_coroutine_threadsafe(pump.close(), loop).result()


def async_source(data: Any, name: str) -> AsyncSource | None:
    """A source for an asynchronous iterable, or for a function that makes them; None for anything
    else."""
    if inspect.isasyncgenfunction(data):
        return AsyncSource(data, name)
    if not isinstance(data, AsyncIterable):
        return None
    return AsyncSource(_Once(data) if isinstance(data, AsyncIterator) else lambda: data, name)


class _Once:
    """Opens what can be read only once."""

    def __init__(self, rows: AsyncIterator[object]) -> None:
        self._rows: AsyncIterator[object] | None = rows

    def __call__(self) -> AsyncIterator[object]:
        rows, self._rows = self._rows, None
        if rows is None:
            raise SourceError(
                "the asynchronous rows have been read already",
                hint="pass the function that makes the generator, without calling it",
            )
        return rows


def _check(pump: _Pump, rows_before: int) -> None:
    """Whether the rows have come to their end, or broken off."""
    try:
        pump.result()
    except PenstockError:
        raise
    except Exception as error:
        raise SourceError(
            f"the data broke off after item {rows_before}: {type(error).__name__}: {error}"
        ) from error


class _Pump:
    """Fetches rows ahead on the loop, as many as make a batch, and rings when there are some."""

    def __init__(self, rows: AsyncIterable[object], loop: asyncio.AbstractEventLoop) -> None:
        self.bell = Bell()
        self._rows = rows
        self._loop = loop
        self._fetched: deque[object] = deque()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._fetching = asyncio.run_coroutine_threadsafe(self._fetch(), loop)
        self._fetching.add_done_callback(lambda _: self.bell.ring())

    def take(self) -> list[object]:
        """What is there."""
        count = len(self._fetched)
        rows = [self._fetched.popleft() for _ in range(count)]
        if count >= BATCH:
            self._loop.call_soon_threadsafe(self._room.set)
        return rows

    @property
    def ended(self) -> bool:
        """Whether nothing comes any more, and everything has been taken."""
        return self._fetching.done() and not self._fetched

    def result(self) -> None:
        with suppress(CancelledError):
            self._fetching.result()

    async def _fetch(self) -> None:
        self._task = asyncio.current_task()
        async for row in self._rows:
            self._fetched.append(row)
            self.bell.ring()
            if len(self._fetched) >= BATCH:
                self._room.clear()
                if len(self._fetched) >= BATCH:  # nobody has taken them meanwhile
                    await self._room.wait()

    async def close(self) -> None:
        if self._task is None:
            self._fetching.cancel()
        else:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task
        if isinstance(self._rows, AsyncIterator) and hasattr(self._rows, "aclose"):
            await _aclose(self._rows)


async def _aclose(rows: Any) -> None:
    with suppress(RuntimeError):  # it is being read by somebody else
        await rows.aclose()


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    host = HOST_LOOP.get()
    if host is not None:
        yield host
        return
    own = asyncio.new_event_loop()
    thread = threading.Thread(target=own.run_forever, daemon=True)
    thread.start()
    try:
        yield own
    finally:
        asyncio.run_coroutine_threadsafe(own.shutdown_asyncgens(), own).result()
        own.call_soon_threadsafe(own.stop)
        thread.join()
        own.close()
