"""Sources that may fall silent and speak again, unlike data that is there to be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from penstock.model.schema import Schema
from penstock.sources.bell import Bell
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk, Source, nothing_of

PATIENCE = 0.05  # seconds

Meanwhile: TypeAlias = Callable[[Callable[[], Chunk | None]], None]
"""Calls what it is given, and takes what that returns, or the error that it raises."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Of whoever reads a source that may be silent: how many seconds he waits, None if for ever,
    before he wants to look at the clock; a bell that is closed when he has left; and how another
    thread gives him something `meanwhile`, as long as he is held up by the source, if he can take
    it."""

    patience: Callable[[], float | None] = lambda: PATIENCE
    bell: Bell = field(default_factory=Bell)
    meanwhile: Meanwhile | None = None


class LiveSource(ABC):
    """Its `read` hands over what is there without waiting for more, and a chunk without rows when
    nothing has come for `PATIENCE`, so that its reader can look at the clock, or leave."""

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
        """The same for a reader who says how long he waits, so that nobody has to look up in vain.
        It ends when he leaves.  Sources that do not know how look up as often as in `read`."""
        return self.read(schema, rejects)


@runtime_checkable
class Listening(Protocol):
    """A source that is told who reads it."""

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]: ...


def chunks_of(
    source: Source, schema: Schema, rejects: StreamRejects, attention: Attention
) -> Iterator[Chunk]:
    """What a source has for whoever pays attention to it."""
    if isinstance(source, Listening):
        return source.listen(schema, rejects, attention)
    return source.read(schema, rejects)


def nothing(schema: Schema) -> Chunk:
    return Chunk(nothing_of(schema))
