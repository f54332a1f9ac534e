"""Sources: their protocol, the chunks of rows that they yield, and how a reader waits for them."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from penstock.io.sources.rejects import Reject, RejectLog, StreamRejects
from penstock.model.types import Field, Schema
from penstock.model.values import RowForm, Values

_NEW = object.__new__


@dataclass(slots=True)  # to be frozen would cost every tuple that comes alone some microseconds
class Chunk:
    """Some rows in reading order; the batch's schema is `Schema.arrow` of the declaration.
    `position` is how many bytes of the source have been read so far, if it is made of bytes, and
    `began` how many before these rows; `arrived` is when the rows came, in nanoseconds of the timer
    by which runs are measured.

    A row that came alone may be held as plain `values` in a `form`: columns are made of it when
    they are first used."""

    batch: pa.RecordBatch
    part: str = ""
    position: int = field(default=0, compare=False)
    began: int = field(default=0, compare=False)
    restart: Restart | None = field(default=None, compare=False)
    seen: FileSeen | None = field(default=None, compare=False)
    arrived: int = field(default_factory=perf_counter_ns, compare=False)
    values: Values | None = field(default=None, init=False, repr=False, compare=False)
    form: RowForm | None = field(default=None, init=False, repr=False, compare=False)

    @staticmethod
    def single(values: Values, form: RowForm) -> Chunk:
        """Make a chunk of a single row, whose columns are not made yet."""
        made: Chunk = _NEW(Chunk)
        made.part, made.position, made.began, made.restart, made.seen = "", 0, 0, None, None
        made.values, made.form, made.arrived = values, form, perf_counter_ns()
        return made

    if not TYPE_CHECKING:  # it is asked for what is missing, and nothing else ever is

        def __getattr__(self, name: str) -> pa.RecordBatch:
            if name != "batch":
                raise AttributeError(name)
            made = self.batch = self.form.record(self.values)
            return made

    @property
    def num_rows(self) -> int:
        return 1 if self.values is not None else int(self.batch.num_rows)


@dataclass(frozen=True, slots=True)
class Restart:
    """Position at which the reading of a part can begin again after a chunk: the bytes before it,
    and the rows, including bad ones."""

    offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileSeen:
    """State of a file when its reading began, or when all of it had been read: its size, a checksum
    of its beginning, and how many bytes at its end were `left`, because they are no whole row yet.
    """

    size: int
    head: int
    whole: bool
    left: int = 0


@dataclass(frozen=True, slots=True)
class PartRead:
    """Progress of reading a part of a source: `rows` that could be read, and bad ones up to the row
    numbered `bad_to`. `restart` is where reading can begin again, with `restart_rows` readable rows
    before it; `seen` describes the file then."""

    rows: int = 0
    bad_to: int = 0
    restart: Restart | None = None
    restart_rows: int = 0
    seen: FileSeen | None = None

    @property
    def whole(self) -> bool:
        return self.seen is not None and self.seen.whole and not self.seen.left


def nothing_of(schema: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema.arrow)


class Source(Protocol):
    """A source of tuples: its partitions, and chunks of rows that fit the declared schema."""

    def describe(self) -> str:
        """Describe the source in one line, for EXPLAIN."""
        ...

    def parts(self) -> list[str]:
        """List the partitions known in advance, in reading order; [''] when there is only one."""
        ...

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        """Yield the rows; those that do not fit `schema` go to `rejects` instead."""
        ...


def can_be_read_again(source: Source | None) -> bool:
    """Whether a source can be read again; an iterator cannot (`source.once`)."""
    return not getattr(source, "once", False)


def is_read_alone(source: Source | None) -> bool:
    """Whether two readings at the same time may take rows away from each other: those of a function
    that is not declared to be replayable."""
    return bool(getattr(source, "exclusive", False))


@runtime_checkable
class KnowsItsTypes(Protocol):
    """A source that knows of a column, without reading it, that all of its values fit."""

    def always_fits(self, field: Field) -> bool: ...


# Waiting: an idle reader sleeps until it is woken.

_GLANCE = 0.25  # seconds


def glances(seconds: float | None) -> Iterator[float | None]:
    """Yield the timeouts of the waits that make up `seconds` altogether.

    Python handles signals in the main thread, between two of its own instructions: one that comes
    just before a wait begins is not noticed before it is over. So the main thread wakes up now and
    then; all others wait in one go."""
    if threading.current_thread() is not threading.main_thread():
        yield seconds
        return
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        left = _GLANCE if until is None else min(_GLANCE, until - time.monotonic())
        yield max(0.0, left)
        if until is not None and time.monotonic() >= until:
            return


class Bell:
    """Wakes an idle reader. Ringing takes no lock, so signal handlers may do it, whatever they have
    interrupted."""

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()
        self._rung = False
        self._told: list[Callable[[], None]] = []  # when it is closed
        self.closed = False

    def ring(self) -> None:
        if not self._rung:  # a reader that has been woken checks everything
            self._rung = True
            self._rings.put(None)

    def wait(self, seconds: float | None) -> bool:
        """Wait until it rings; False if it does not within `seconds`. One thread waits."""
        for left in glances(seconds):
            if self.closed:
                break
            try:
                self._rings.get(timeout=left)
            except Empty:
                continue
            self._rung = False
            return True
        return self.closed

    def close(self) -> None:
        """Wake the reader, and every later one at once."""
        self.closed = True
        self.ring()
        for tell in list(self._told):
            tell()

    @contextmanager
    def closing(self, tell: Callable[[], None]) -> Iterator[None]:
        """Call `tell` when the bell is closed, or now if it has been."""
        self._told.append(tell)
        if self.closed:
            tell()
        try:
            yield
        finally:
            self._told.remove(tell)

    def pause(self, seconds: float) -> bool:
        """Wait `seconds`, in any thread, whether it rings or not; True if it has been closed."""
        own = Bell()
        with self.closing(own.close):
            own.wait(seconds)
        return self.closed


# Live sources, which may fall silent and speak again, unlike files and data in memory.

PATIENCE = 0.05  # seconds

Meanwhile: TypeAlias = Callable[[Callable[[], Chunk | None]], None]
"""Calls what it is given, and takes what that returns, or the error that it raises."""


@dataclass(frozen=True, slots=True)
class Attention:
    """The behaviour of a reader of a source that may be silent: `patience`, the seconds after which
    it must check the clock (None: never), a `bell` that is closed when it has left, and
    `meanwhile`, by which another thread gives it rows while the source blocks it, if it can take
    them."""

    patience: Callable[[], float | None] = lambda: PATIENCE
    bell: Bell = field(default_factory=Bell)
    meanwhile: Meanwhile | None = None


class LiveSource(ABC):
    """A source that may be silent. `read` yields the rows that have come without waiting for more,
    and a chunk without rows when none has come for `PATIENCE`, so that its reader can check the
    clock, or leave."""

    __slots__ = ()

    @abstractmethod
    def describe(self) -> str: ...

    def parts(self) -> list[str]:
        return [""]

    @abstractmethod
    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]: ...

    def listen(
        self,
        schema: Schema,
        rejects: StreamRejects,
        attention: Attention,  # noqa: ARG002
    ) -> Iterator[Chunk]:
        """Read with the patience of the reader, so that it is not woken in vain, until it leaves. A
        source that cannot do so wakes it as often as `read` does."""
        return self.read(schema, rejects)


@runtime_checkable
class Listening(Protocol):
    """A source that takes the attention of its reader into account."""

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]: ...


def chunks_of(
    source: Source, schema: Schema, rejects: StreamRejects, attention: Attention
) -> Iterator[Chunk]:
    """Read a source, with the attention of its reader where the source supports that."""
    if isinstance(source, Listening):
        return source.listen(schema, rejects, attention)
    return source.read(schema, rejects)


def nothing(schema: Schema) -> Chunk:
    return Chunk(nothing_of(schema))


# One reading of a source that is shared by several readers, one after the other.


class SharedReading:
    """Keeps the chunks of a source, for engines that need all of them anyway before they answer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._read: tuple[list[Chunk], list[Reject]] | None = None

    def describe(self) -> str:
        return self._source.describe()

    def parts(self) -> list[str]:
        return self._source.parts()

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        if self._read is None:
            log = RejectLog(rejects.log.strict)
            self._read = list(self._source.read(schema, log.of(rejects.stream))), list(log)
        chunks, rejected = self._read
        for each in rejected:
            rejects.log.add(each)
        yield from chunks
