"""A live source that says what a test tells it, when the test tells it."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.io.formats.rows import read_rows
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Attention, Chunk, LiveSource
from penstock.model.types import Schema
from penstock.model.values import RowForm


@dataclass(frozen=True)
class Told(LiveSource):
    """Rows that a test puts into a queue, and None at the end."""

    said: queue.SimpleQueue[list[object] | None] = field(default_factory=queue.SimpleQueue)

    def describe(self) -> str:
        return "TEST"

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return self.listen(schema, rejects, Attention())

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        with attention.bell.closing(lambda: self.said.put(None)):
            while (rows := self.said.get()) is not None:
                yield read_rows(rows, schema, 0, rejects, RowForm(schema))
