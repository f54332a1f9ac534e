"""What every source offers: its parts, and chunks of rows that have exactly the declared schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

from penstock.model.row_form import RowForm, Values
from penstock.model.schema import Field, Schema
from penstock.sources.rejects import StreamRejects

_NEW = object.__new__


@dataclass(slots=True)  # to be frozen would cost every tuple that comes alone some microseconds
class Chunk:
    """Some rows in reading order; the batch's schema is `Schema.arrow` of the declaration.
    `position` is how many bytes of the source have been read so far, if it is made of bytes, and
    `began` how many before these rows;
    `arrived` is when the rows came, in nanoseconds of the timer by which runs are measured.

    A row that came alone may be there as plain `values` in a `form`: then columns are made of it
    when somebody asks for them."""

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
        """A row alone, of which there are no columns yet."""
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
    """Where the reading of a part can begin again after a chunk: so many bytes, and rows, the bad
    ones among them, lie before."""

    offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file as it was when its reading began, or when all of it had been read: its size, and a
    checksum of how it begins; and how many bytes at its end were `left`, because they are no whole
    row yet."""

    size: int
    head: int
    whole: bool
    left: int = 0


@dataclass(frozen=True, slots=True)
class PartRead:
    """How far a part of a source has been read: `rows` that could be read, and bad ones up to the
    row numbered `bad_to`.  `restart` is where reading can begin again, with `restart_rows` readable
    rows before it; `seen` is what the file was like."""

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
    def describe(self) -> str:
        """One line for EXPLAIN."""
        ...

    def parts(self) -> list[str]:
        """The sub-sources known in advance, in reading order; [''] when there is only one."""
        ...

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        """The rows; those that do not fit `schema` go to `rejects` instead."""
        ...


def can_be_read_again(source: Source | None) -> bool:
    """Not so an iterator: then `source.once` is true."""
    return not getattr(source, "once", False)


def is_read_alone(source: Source | None) -> bool:
    """Whether two readings at the same time may take rows away from each other: those of a function
    that is not declared to be replayable."""
    return bool(getattr(source, "exclusive", False))


@runtime_checkable
class KnowsItsTypes(Protocol):
    """A source that can say of a column, without reading it, that all of its values fit."""

    def always_fits(self, field: Field) -> bool: ...
