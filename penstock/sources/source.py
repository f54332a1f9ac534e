"""What every source offers: its parts, and chunks of rows that have exactly the declared schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from penstock.model.schema import Schema
from penstock.sources.rejects import StreamRejects


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows in reading order; the batch's schema is `Schema.arrow` of the declaration.
    `position` is how many bytes of the source have been read so far, if it is made of bytes."""

    batch: pa.RecordBatch
    part: str = ""
    position: int = field(default=0, compare=False)


class Source(Protocol):
    def describe(self) -> str:
        """One line for EXPLAIN."""
        ...

    def parts(self) -> list[str]:
        """The sub-sources known in advance, in reading order; [''] when there is only one."""
        ...

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        """The rows; those that do not fit `schema` go to `rejects` instead."""
        ...
