"""Fetching rows that come asynchronously, for a reader that is not asynchronous itself.

Whoever has an event loop wants his rows to be read on it: they are handed over from its thread.
Otherwise the reader's own thread runs a loop whenever it waits, so that a row is handled by the
thread that it came to, and nobody has to be woken.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

from penstock.sources.bell import Bell, glances
from penstock.sources.rows import BATCH


class Pump(ABC):
    """Fetches as many rows ahead as make a batch."""

    def __init__(self, rows: AsyncIterable[object]) -> None:
        self._rows = rows
        self._fetched: deque[object] = deque()
        self._room = asyncio.Event()

    @abstractmethod
    def wait(self, seconds: float | None) -> bool:
        """Until there is something to take, or rows have ended, or somebody has left; whether it is
        so within so many seconds."""

    def take(self) -> list[object]:
        """What is there."""
        count = len(self._fetched)
        rows = [self._fetched.popleft() for _ in range(count)]
        if count >= BATCH:
            self._make_room()
        return rows

    @property
    def ended(self) -> bool:
        """Whether nothing comes any more, and everything has been taken."""
        return self._done and not self._fetched

    @abstractmethod
    def result(self) -> None:
        """What rows have broken off with is raised."""

    @abstractmethod
    def leave(self) -> None:
        """Nobody waits any more; from any thread."""

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
        """A row has been fetched."""

    async def _fetch(self) -> None:
        async for row in self._rows:
            self._fetched.append(row)
            self._tell()
            if len(self._fetched) >= BATCH:
                self._room.clear()
                if len(self._fetched) >= BATCH:  # nobody has taken them meanwhile
                    await self._room.wait()


class HostedPump(Pump):
    """On the loop of somebody else, which runs in another thread."""

    def __init__(self, rows: AsyncIterable[object], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(rows)
        self._bell = Bell()
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._fetching: Future[None] = asyncio.run_coroutine_threadsafe(self._fetch(), loop)
        self._fetching.add_done_callback(lambda _: self._bell.ring())

    def wait(self, seconds: float | None) -> bool:
        return self._bell.wait(seconds)

    def result(self) -> None:
        with suppress(CancelledError):
            self._fetching.result()

    def leave(self) -> None:
        self._bell.close()

    @property
    def left(self) -> bool:
        return self._bell.closed

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

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
    """On a loop in a thread of its own: in the reader's thread, another one is running."""

    def __init__(self, rows: AsyncIterable[object]) -> None:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, daemon=True)
        self._thread.start()
        super().__init__(rows, loop)

    def close(self) -> None:
        super().close()
        loop = self._loop
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()


class OwnPump(Pump):
    """On a loop that runs while the reader waits.  What is ready by then is fetched together."""

    def __init__(self, rows: AsyncIterable[object]) -> None:
        super().__init__(rows)
        self._loop = asyncio.new_event_loop()
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
            if self._fetched or self._left or self._task.done():
                return True
        return False

    def result(self) -> None:
        with suppress(asyncio.CancelledError):
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


def pump_of(rows: AsyncIterable[object], host: asyncio.AbstractEventLoop | None) -> Pump:
    """On the loop of a host, if there is one."""
    if host is not None:
        return HostedPump(rows, host)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return OwnPump(rows)
    return ThreadedPump(rows)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task


async def _close(rows: Any) -> None:
    if isinstance(rows, AsyncIterator) and hasattr(rows, "aclose"):
        with suppress(RuntimeError):  # it is being read by somebody else
            await rows.aclose()
