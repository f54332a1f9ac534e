"""A live source whose words and silences a test writes down beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import penstock as ps
from penstock.io.formats.rows import read_rows
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Chunk, LiveSource, nothing
from penstock.model.types import Schema
from penstock.model.values import RowForm

SECOND = 1_000_000


@dataclass(frozen=True)
class Silence:
    """The clock moves on, and nothing is said."""

    seconds: int


@dataclass(frozen=True)
class Scripted(LiveSource):
    script: tuple[Silence | list[Any] | Callable[[], None], ...]
    clock: ps.ManualClock

    def describe(self) -> str:
        return "SCRIPT"

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        for each in self.script:
            if isinstance(each, Silence):
                self.clock.advance(each.seconds * SECOND)
                yield nothing(schema)
            elif isinstance(each, list):
                yield read_rows(each, schema, 0, rejects, RowForm(schema))
            else:
                each()


def speak(db: ps.Database, name: str, source: LiveSource) -> None:
    """Let a stream of the database read from a source."""
    key = name.casefold()
    db.catalog.streams[key] = replace(db.catalog.streams[key], source=source)
