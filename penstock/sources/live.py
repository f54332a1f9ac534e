"""Sources that may fall silent and speak again, unlike data that is there to be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.model.schema import Schema
from penstock.sources.bell import Bell
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk, nothing_of

PATIENCE = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Attention:
    """Of whoever reads a live source: how many seconds he waits, None if for ever, before he wants
    to look at the clock; and a bell that is closed when he has left."""

    patience: Callable[[], float | None] = lambda: PATIENCE
    bell: Bell = field(default_factory=Bell)


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


def nothing(schema: Schema) -> Chunk:
    return Chunk(nothing_of(schema))
