"""One reading of a source for several readers, who come one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.schema import Schema
from penstock.sources.rejects import Reject, RejectLog, StreamRejects
from penstock.sources.source import Chunk, Source


class SharedReading:
    """Remembers what was read, for engines that need all of it anyway before they answer."""

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
