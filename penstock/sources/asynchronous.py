"""Rows that come asynchronously: an asynchronous iterable of dicts, tuples or lists."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from penstock.errors import PenstockError, SourceError
from penstock.model.schema import Schema
from penstock.sources.live import PATIENCE, LiveSource, nothing
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
        with _loop() as loop:
            pump = _Pump(self.open())
            rows_before = 0
            taking: Future[list[object]] = Future()
            try:
                while True:
                    taking = asyncio.run_coroutine_threadsafe(pump.take(), loop)
                    yield from _while_waiting(taking, schema)
                    rows = _taken(taking, rows_before)
                    if not rows:
                        return
                    batch = read_rows(rows, schema, rows_before, rejects)
                    rows_before += len(rows)
                    if batch.num_rows:
                        yield Chunk(batch)
            finally:
                taking.cancel()
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


def _while_waiting(taking: Future[list[object]], schema: Schema) -> Iterator[Chunk]:
    while True:
        try:
            taking.exception(PATIENCE)
        except TimeoutError:
            yield nothing(schema)
        except CancelledError:
            return
        else:
            return


def _taken(taking: Future[list[object]], rows_before: int) -> list[object]:
    try:
        return taking.result()
    except PenstockError:
        raise
    except Exception as error:
        raise SourceError(
            f"the data broke off after item {rows_before}: {type(error).__name__}: {error}"
        ) from error


class _Pump:
    """Fetches rows ahead, as many as make a batch; lives on the loop."""

    def __init__(self, rows: AsyncIterable[object]) -> None:
        self._rows = rows
        self._fetched: asyncio.Queue[object] = asyncio.Queue(BATCH)
        self._task: asyncio.Task[None] | None = None

    async def take(self) -> list[object]:
        """At least one row, and whatever else is there; none at the end."""
        if self._task is None:
            self._task = asyncio.create_task(self._fetch())
        if self._fetched.empty():
            first = asyncio.ensure_future(self._fetched.get())
            await asyncio.wait([first, self._task], return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                first.cancel()
                if self._fetched.empty():
                    self._task.result()  # the end, or the failure that it was
            else:
                return [first.result(), *self._there()]
        return self._there()

    def _there(self) -> list[object]:
        return [self._fetched.get_nowait() for _ in range(self._fetched.qsize())]

    async def _fetch(self) -> None:
        async for row in self._rows:
            await self._fetched.put(row)

    async def close(self) -> None:
        if self._task is not None:
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
