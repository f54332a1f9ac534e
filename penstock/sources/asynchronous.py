"""Rows that come asynchronously: an asynchronous iterable of dicts, tuples or lists."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from penstock.errors import PenstockError, SourceError
from penstock.model.schema import Schema
from penstock.sources.live import Attention, LiveSource, nothing
from penstock.sources.pumps import Pump, pump_of
from penstock.sources.rejects import StreamRejects
from penstock.sources.rows import RowChunks
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
        pump = pump_of(self.open(), HOST_LOOP.get())
        read, chunks = 0, RowChunks(schema, rejects)
        try:
            with attention.bell.closing(pump.leave):
                while not pump.left:
                    rows = pump.take()
                    if rows:
                        read += len(rows)
                        chunk = chunks.of(rows)
                        if chunk is not None:
                            yield chunk
                    elif pump.ended:
                        _check(pump, read)
                        return
                    elif not pump.wait(attention.patience()):
                        yield nothing(schema)
        finally:
            pump.close()


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


def _check(pump: Pump, read: int) -> None:
    """Whether the rows have come to their end, or broken off."""
    try:
        pump.result()
    except PenstockError:
        raise
    except Exception as error:
        raise SourceError(
            f"the data broke off after item {read}: {type(error).__name__}: {error}"
        ) from error
