"""Asynchronous sources: rows of an asynchronous iterable, fetched for a reader that is synchronous.

Rows of a program that has an event loop are read on it, and passed on from its thread, because they
may await objects of that loop. Otherwise the reader's own thread runs a loop whenever it waits, so
that a row is processed by the thread that it came to, without waking another one."""

from __future__ import annotations

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, nullcontext, suppress
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any, TypeVarTuple, Unpack

from penstock.errors import EngineError, PenstockError, SourceError
from penstock.io.formats.rows import ROWS_A_BATCH, RowChunks
from penstock.io.sources.one_reading import OneReading
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Attention, Bell, Chunk, LiveSource, glances, nothing
from penstock.model.types import Schema

_Arguments = TypeVarTuple("_Arguments")


@dataclass(frozen=True, slots=True)
class LoopHost:
    """An event loop that runs in another thread. If it `waits`, that thread is never blocked by the
    run, so a reading can wait until its rows have been closed."""

    loop: asyncio.AbstractEventLoop
    waits: bool = False


class OwnLoop(asyncio.SelectorEventLoop):
    """A loop that notices calls which other threads schedule on it without waking it. They do that
    with a Queue, an Event or a Future that is awaited here and set there: its reader might never be
    woken."""

    def __init__(self) -> None:
        super().__init__()
        self._driver: int | None = None  # the thread that runs it now
        self.intruded = False

    def run_forever(self) -> None:
        self._driver = threading.get_ident()
        try:
            super().run_forever()
        finally:
            self._driver = None

    def call_soon(
        self,
        callback: Callable[[Unpack[_Arguments]], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if self._driver in (None, threading.get_ident()):
            return super().call_soon(callback, *args, context=context)
        self.intruded = True
        return self.call_soon_threadsafe(callback, *args, context=context)

    def check(self) -> None:
        if self.intruded:
            raise SourceError(
                "the rows wait for an asyncio object (a Queue, Event or Future) that another"
                " thread or event loop sets, which would not wake them",
                expected="rows that are read on the loop which they belong to",
                hint="db.stream(…) and db.live() inside a coroutine of that loop, or run_async",
            )


class Pump(ABC):
    """Fetches as many rows ahead as make a batch."""

    def __init__(self, rows: AsyncIterable[object]) -> None:
        self._rows = rows
        self._fetched: deque[object] = deque()
        self._room = asyncio.Event()

    @abstractmethod
    def wait(self, seconds: float | None) -> bool:
        """Wait until there are rows to take, rows have ended, or the reader has left; False if none
        of it happens within `seconds`."""

    def take(self) -> list[object]:
        """Return and remove the rows that have been fetched."""
        count = len(self._fetched)
        rows = [self._fetched.popleft() for _ in range(count)]
        if count >= ROWS_A_BATCH:
            self._make_room()
        return rows

    @property
    def ended(self) -> bool:
        """Whether no more rows come, and all have been taken."""
        return self._done and not self._fetched

    @abstractmethod
    def result(self) -> None:
        """Raise the error that rows have broken off with, if any."""

    @abstractmethod
    def leave(self) -> None:
        """Stop: the reader has left. May be called from any thread."""

    @property
    @abstractmethod
    def left(self) -> bool: ...

    @abstractmethod
    def close(self) -> None: ...

    @property
    @abstractmethod
    def _done(self) -> bool: ...

    @abstractmethod
    def _make_room(self) -> None: ...

    @abstractmethod
    def _tell(self) -> None:
        """Tell the reader that a row has been fetched."""

    async def _fetch(self) -> None:
        async for row in self._rows:
            self._fetched.append(row)
            self._tell()
            if len(self._fetched) >= ROWS_A_BATCH:
                self._room.clear()
                if len(self._fetched) >= ROWS_A_BATCH:  # nobody has taken them meanwhile
                    await self._room.wait()


class HostedPump(Pump):
    """Fetches on the loop of a host."""

    def __init__(self, rows: AsyncIterable[object], host: LoopHost) -> None:
        super().__init__(rows)
        self._bell = Bell()
        self._host = host
        self._loop = loop = host.loop
        self._task: asyncio.Task[None] | None = None
        self._fetching: Future[None] = asyncio.run_coroutine_threadsafe(self._fetch(), loop)
        self._fetching.add_done_callback(lambda _: self._bell.ring())

    def wait(self, seconds: float | None) -> bool:
        return self._bell.wait(seconds)

    def result(self) -> None:
        self._fetching.result()

    def leave(self) -> None:
        self._bell.close()

    @property
    def left(self) -> bool:
        return self._bell.closed

    def close(self) -> None:
        closing = self._close()
        try:
            closed = asyncio.run_coroutine_threadsafe(closing, self._loop)
        except RuntimeError:  # the loop has been closed, and the rows with it
            closing.close()
            return
        if self._host.waits:
            closed.result()

    @property
    def _done(self) -> bool:
        return self._fetching.done()

    def _make_room(self) -> None:
        self._loop.call_soon_threadsafe(self._room.set)

    def _tell(self) -> None:
        self._bell.ring()

    async def _fetch(self) -> None:
        self._task = asyncio.current_task()
        await super()._fetch()

    async def _close(self) -> None:
        if self._task is None:
            self._fetching.cancel()
        else:
            await _cancel(self._task)
        await _close(self._rows)


class ThreadedPump(HostedPump):
    """Fetches on a loop in a thread of its own, because another one is running in the reader's
    thread."""

    def __init__(self, rows: AsyncIterable[object]) -> None:
        self._own = loop = OwnLoop()
        self._thread = threading.Thread(target=loop.run_forever, daemon=True)
        self._thread.start()
        super().__init__(rows, LoopHost(loop, waits=True))

    def take(self) -> list[object]:
        self._own.check()
        return super().take()

    def close(self) -> None:
        super().close()
        loop = self._loop
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()


class OwnPump(Pump):
    """Fetches on a loop that runs while the reader waits. Rows that are ready by then are fetched
    together."""

    def __init__(self, rows: AsyncIterable[object]) -> None:
        super().__init__(rows)
        self._loop = OwnLoop()
        self._left = False
        self._closing = False
        self._task: asyncio.Task[None] = self._loop.create_task(self._fetch())
        self._task.add_done_callback(lambda _: self._tell())

    def wait(self, seconds: float | None) -> bool:
        loop = self._loop
        for left in glances(seconds):
            timer = None if left is None else loop.call_later(left, self._tell)
            loop.run_forever()
            if timer is not None:
                timer.cancel()
            self._loop.check()
            if self._fetched or self._left or self._task.done():
                return True
        return False

    def result(self) -> None:
        self._task.result()

    def leave(self) -> None:
        self._left = True
        with suppress(RuntimeError):  # it is over anyway
            self._loop.call_soon_threadsafe(self._tell)

    @property
    def left(self) -> bool:
        return self._left

    def close(self) -> None:
        self._closing = True
        try:
            self._loop.run_until_complete(self._close())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    @property
    def _done(self) -> bool:
        return self._task.done()

    def _make_room(self) -> None:
        self._room.set()

    def _tell(self) -> None:
        if not self._closing:  # then it runs until that is done
            self._loop.stop()

    async def _close(self) -> None:
        await _cancel(self._task)
        await _close(self._rows)


def pump_of(rows: AsyncIterable[object], host: LoopHost | None) -> Pump:
    """Make the pump: on the loop of a host, if there is one."""
    if host is not None:
        return HostedPump(rows, host)
    return OwnPump(rows) if running_loop() is None else ThreadedPump(rows)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running loop of this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task


async def _close(rows: Any) -> None:
    if isinstance(rows, AsyncIterator) and hasattr(rows, "aclose"):
        with suppress(RuntimeError):  # it is being read by somebody else
            await rows.aclose()


# The source: an asynchronous iterable of dicts, tuples or lists.

HOST: ContextVar[LoopHost | None] = ContextVar("HOST", default=None)
"""The loop on which a run was started; without one, a source has a loop of its own."""


@dataclass(frozen=True, slots=True)
class AsyncSource(LiveSource):
    """Rows of an asynchronous iterable, or of a function that makes one for every reading."""

    open: _OpenOnce | _OpenEach
    name: str
    home: asyncio.AbstractEventLoop | None = None  # on which the stream was declared

    def host(self, started_on: LoopHost | None) -> LoopHost | None:
        """The loop on which rows are fetched: that on which the stream was declared, if it runs in
        another thread, otherwise that on which the run was started."""
        if self.home is not None and self.home.is_running() and self.home is not running_loop():
            waits = started_on is not None and started_on.loop is self.home and started_on.waits
            return LoopHost(self.home, waits)
        return started_on

    @property
    def once(self) -> bool:
        return isinstance(self.open, _OpenOnce)

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
    """Make a source of an asynchronous iterable, or of a function that makes them; None for
    anything else."""
    if isinstance(data, AsyncIterator):
        if replayable:
            raise SourceError(
                f"a {name} can be read once, so it is not replayable",
                hint="pass the function that makes the generator, without calling it",
            )
        return AsyncSource(_OpenOnce(lambda: data), name, running_loop())
    if isinstance(data, AsyncIterable):
        make: Callable[[], AsyncIterable[object]] = lambda: data  # noqa: E731
    elif inspect.isasyncgenfunction(data):
        make = data
    else:
        return None
    opened = _OpenOnce(make) if replayable is False else _OpenEach(make, bool(replayable))
    return AsyncSource(opened, name, running_loop())


class _OpenOnce:
    """Opens an iterable that can be read only once."""

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


class _OpenEach:
    """Calls a function for every reading, one reading at a time unless it is `replayable`."""

    def __init__(self, make: Callable[[], AsyncIterable[object]], replayable: bool) -> None:
        self._make = make
        self.exclusive = not replayable
        self._one = OneReading()

    @contextmanager
    def opened(self, stream: str) -> Iterator[AsyncIterable[object]]:
        with self._one.of(stream) if self.exclusive else nullcontext():
            yield self._make()


def _check(pump: Pump, read: int) -> None:
    """Raise the error that rows have broken off with; whether they have ended."""
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


def refuse_to_hold_up(sources: Iterable[object], started_on: LoopHost | None) -> None:
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


def _is_of(host: LoopHost | None, loop: asyncio.AbstractEventLoop) -> bool:
    return host is not None and host.loop is loop
