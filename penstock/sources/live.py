"""Sources that may fall silent and speak again, unlike data that is there to be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from penstock.model.schema import Schema
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk, nothing_of

PATIENCE = 0.05  # seconds


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


def nothing(schema: Schema) -> Chunk:
    return Chunk(nothing_of(schema))
