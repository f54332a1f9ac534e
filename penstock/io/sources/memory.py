"""Data that the program holds or makes: Arrow, pandas, Polars, iterables of rows or batches, and
VALUES.

Iterators may give rows at any pace. Rows are emitted in batches: a full one, or the rows so far
when the next takes long; a row that was waited for does not wait for the next. An iterator stays in
the thread that reads it, so its reader is held up until it gives a row; rows of a burst that have
been read by then are emitted by another thread, if the reader can be given rows meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath
from time import perf_counter_ns
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.errors import SourceError, one_line, shortened
from penstock.io.formats.arrow import check_columns, fit_batches
from penstock.io.formats.rows import (
    ROWS_A_BATCH,
    SAMPLE,
    RowChunks,
    RowSource,
    schema_of_arrow,
    schema_of_rows,
)
from penstock.io.sources.asynchronous import AsyncSource, async_source
from penstock.io.sources.one_reading import Made, Once, items_in, items_of
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Attention, Bell, Chunk, Meanwhile
from penstock.model.types import Field, Schema
from penstock.model.values import to_arrow

PATIENCE = 10_000_000  # nanoseconds that rows may have to wait for others; no answer depends on it
AWAITED = 300_000  # nanoseconds that a row takes which somebody waits for: longer than to handle it
_SECOND = 1_000_000_000


class Promptly:
    """Reads an iterator in batches that do not wait for slow rows. If making rows fails, those
    before the failure come first."""

    def __init__(self, rest: Iterator[object], chunks: RowChunks) -> None:
        self._rest = rest
        self._made = chunks
        self._fetched: list[object] = []
        self._since = 0  # when the first of them came
        self._rounds = 0  # how often somebody has begun to ask for rows
        self._asked = perf_counter_ns()  # for the first row, which a look ahead may wait for
        self._failure: Exception | None = None
        self._turn = threading.Lock()  # to hand something on

    def chunks(self, attention: Attention) -> Iterator[Chunk]:
        if attention.meanwhile is None:
            yield from self._all(lambda: None)
            return
        with self._helper_thread(attention.meanwhile, attention.bell) as wake:
            yield from self._all(wake)

    def _all(self, wake: Callable[[], None]) -> Iterator[Chunk]:
        while self._fetch(wake):
            with self._turn:
                chunk = self._take()
            if chunk is not None:
                yield chunk

    def _fetch(self, wake: Callable[[], None]) -> bool:
        """Read more rows; False at the end. They are in hand now, or have been emitted meanwhile;
        `wake` is called when the first of them may have to wait for others."""
        if self._failure is not None:
            raise self._failure
        self._rounds += 1
        put, more = self._fetched.append, islice(self._rest, ROWS_A_BATCH)
        begun, self._asked = self._asked or perf_counter_ns(), 0
        try:
            for row in more:
                put(row)
                self._since = last = perf_counter_ns()
                if last - begun > AWAITED:
                    return True
                wake()
                break
            else:
                return False
            begun = last
            for row in more:
                put(row)
                now = perf_counter_ns()
                if now - last > AWAITED or now - begun > PATIENCE:
                    if len(self._fetched) == 1:
                        self._since = now
                    break
                last = now
        except Exception as error:
            self._failure = error
        return True

    def _take(self) -> Chunk | None:
        """Make a chunk of the rows in hand; None if none of them fits the stream."""
        count = len(self._fetched)
        rows = self._fetched[:count]
        del self._fetched[:count]  # another thread may put one more there
        arrived, self._since = self._since, perf_counter_ns()
        chunk = self._made.of(rows) if rows else None
        if chunk is not None:
            chunk.arrived = arrived
        return chunk

    @contextmanager
    def _helper_thread(
        self, meanwhile: Meanwhile, reader: Bell
    ) -> Generator[Callable[[], None], None, None]:
        """Start a thread that emits rows left in hand; it sleeps until it is woken."""
        bell = Bell()
        thread = threading.Thread(
            target=self._hand_on,
            args=(meanwhile, bell),
            name=f"{threading.current_thread().name}, second hand",
            daemon=True,
        )
        thread.start()
        try:
            with reader.closing(bell.close):
                yield bell.ring
        finally:
            bell.close()
            thread.join()

    def _hand_on(self, meanwhile: Meanwhile, bell: Bell) -> None:
        while bell.wait(None) and not bell.closed:
            while self._fetched:
                rounds = self._rounds
                if bell.pause(PATIENCE / _SECOND):
                    return
                if self._rounds == rounds:
                    with self._turn:
                        meanwhile(self._take)


# Data that the program already holds: Arrow, pandas, Polars, or an iterable of rows or batches.
#
# pandas and Polars are not imported here: a program that passes one of their frames has done it.

BATCH = 65_536  # rows
_EXPECTED = (
    "an Arrow Table, RecordBatch or RecordBatchReader, a pandas or Polars DataFrame,"
    " an iterable of dicts, tuples or RecordBatches, a function that makes one,"
    " or an asynchronous iterable of rows"
)


@dataclass(frozen=True, slots=True)
class BatchSource:
    """Rows of Arrow record batches."""

    batches: Sequence[pa.RecordBatch]
    name: str

    def describe(self) -> str:
        return f"MEMORY ({self.name})"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return _read_arrow(self.batches, schema, rejects)


@dataclass(frozen=True, slots=True)
class IteratorSource:
    """Rows or batches of an iterator, by the class of its first item. They are not kept, and none
    is requested before the source is read."""

    items: Once[Any] | Made[Any]
    name: str

    @property
    def once(self) -> bool:
        return self.items.once

    @property
    def exclusive(self) -> bool:
        return self.items.exclusive

    def describe(self) -> str:
        return f"MEMORY ({self.name})"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return self.listen(schema, rejects, Attention())

    def listen(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        """Read with a reader that can be given rows while the iterator blocks."""
        with (
            self.items.opened(rejects.stream) as opened,
            closing(opened.reading(rejects.stream)) as items,
        ):
            promptly = Promptly(items, RowChunks(schema, rejects))
            if any(isinstance(each, pa.RecordBatch) for each in opened.peek(1)):
                yield from _read_arrow(items, schema, rejects)
            else:
                yield from promptly.chunks(attention)


def _read_arrow(
    batches: Iterable[object], schema: Schema, rejects: StreamRejects
) -> Iterator[Chunk]:
    for batch in fit_batches(_checked(batches), schema, "", rejects):
        if batch.num_rows:
            yield Chunk(batch)


def _checked(batches: Iterable[object]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches, start=1):
        if not isinstance(batch, pa.RecordBatch):
            raise SourceError(
                f"item {number} of the batches is a {type(batch).__name__}",
                expected="a RecordBatch, like the first one",
            )
        yield batch


MemorySource: TypeAlias = BatchSource | RowSource | IteratorSource | AsyncSource


def memory_source(
    data: object, schema: Schema | None = None, replayable: bool | None = None
) -> tuple[MemorySource, Schema]:
    """Make a source of the data, and its schema: the given one, else as the data suggests.
    `replayable` tells whether a function gives the same rows whenever it is called.

    >>> source, schema = memory_source([{"id": 1, "name": "a"}, {"id": 2.5}])
    >>> print(source.describe(), "|", schema)
    MEMORY (list) | id DOUBLE, name STRING
    """
    name = _name(data)
    live = async_source(data, name, replayable)
    if live is not None:
        if schema is None:
            raise SourceError("asynchronous rows do not show their columns", expected="a schema")
        return live, schema
    if isinstance(data, pa.RecordBatchReader):
        _refuse_replayable(replayable, name)
        given = _checked_schema(data.schema, schema)
        return IteratorSource(Once(data), name), given
    table = _as_table(data)
    if table is not None:
        _refuse_replayable(replayable, name, known=True)
        given = _checked_schema(table.schema, schema)
        return BatchSource(table.to_batches(max_chunksize=BATCH), name), given
    if isinstance(data, list | tuple):
        _refuse_replayable(replayable, name, known=True)
        return _of_list(data, name, schema)
    items = _items(data, replayable)
    return IteratorSource(items, name), _schema_of(_sample(items)) if schema is None else schema


def _of_list(data: Sequence[Any], name: str, schema: Schema | None) -> tuple[MemorySource, Schema]:
    if data and isinstance(data[0], pa.RecordBatch):
        return BatchSource(data, name), _checked_schema(data[0].schema, schema)
    return RowSource(data, name), _schema_of(data[:SAMPLE]) if schema is None else schema


def _items(data: object, replayable: bool | None) -> Once[Any] | Made[Any]:
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping):
        return items_in(data, replayable)
    if callable(data):
        return items_of(lambda: _made_by(data), replayable)
    raise _no_table(data)


def _refuse_replayable(said: bool | None, name: str, known: bool = False) -> None:
    """Refuse a declaration that contradicts the data."""
    if said is not None and said is not known:
        can = "can always be read again" if known else "can be read once"
        raise SourceError(
            f"a {name} {can}, so replayable={said} does not fit it",
            hint="leave it out: it is said of functions that make rows",
        )


def _sample(items: Once[Any] | Made[Any]) -> Sequence[object]:
    first = items.peek(1)
    return first if first and isinstance(first[0], pa.RecordBatch) else items.peek(SAMPLE)


def _made_by(function: Any) -> Iterable[Any]:
    made = function()
    table = _as_table(made)
    if table is not None:
        batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=BATCH)
        return batches
    if not isinstance(made, Iterable) or isinstance(made, str | bytes | Mapping):
        raise _no_table(made)
    items: Iterable[Any] = made
    return items


def _no_table(data: object) -> SourceError:
    hint = None
    if isinstance(data, str | PurePath):
        return SourceError(
            f"{one_line(shortened(repr(str(data)), 80))} is a text, and a text is not a table",
            expected=_EXPECTED,
            hint=f"CREATE STREAM … (…) FROM FILES '{shortened(str(data), 60)}' reads a file",
        )
    if isinstance(data, dict):
        hint = "pyarrow.table(...) for a dict of columns"
    elif isinstance(data, asyncio.Queue):
        hint = "an asynchronous generator that yields what it awaits of queue.get()"
    elif hasattr(data, "get") and hasattr(data, "put"):
        hint = "iter(queue.get, None), which ends at None"
    return SourceError(f"a {type(data).__name__} is not a table", expected=_EXPECTED, hint=hint)


def _name(data: object) -> str:
    package = type(data).__module__.partition(".")[0]
    name = type(data).__name__
    return name if package == "builtins" else f"{package}.{name}"


def _as_table(data: Any) -> pa.Table | None:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _is_frame(data, "pandas", "DataFrame"):
        try:
            return pa.Table.from_pandas(data, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = " ".join(map(str, error.args))
            raise SourceError(f"the DataFrame cannot be converted to Arrow: {reason}") from error
    if _is_frame(data, "polars", "LazyFrame"):
        return data.collect().to_arrow()
    if _is_frame(data, "polars", "DataFrame"):
        return data.to_arrow()
    return None


def _is_frame(data: object, package: str, name: str) -> bool:
    return any(
        each.__name__ == name and each.__module__.partition(".")[0] == package
        for each in type(data).__mro__
    )


def _checked_schema(found: pa.Schema, schema: Schema | None) -> Schema:
    """Schema for Arrow data; types that cannot fit are refused now rather than when the query
    runs."""
    if schema is None:
        schema = schema_of_arrow(found)
    check_columns(found, schema, "")
    return schema


def _schema_of(sample: Sequence[object]) -> Schema:
    if not sample:
        raise SourceError("there are no rows to take a schema from", expected="a schema")
    if isinstance(sample[0], pa.RecordBatch):
        return _checked_schema(sample[0].schema, None)
    named = [row for row in sample if isinstance(row, Mapping)]
    if not named:
        raise SourceError(
            f"rows of class {type(sample[0]).__name__} do not name their columns",
            expected="a schema, or dicts",
        )
    return schema_of_rows(named)


# VALUES: rows that are written in the statement.


@dataclass(frozen=True, slots=True)
class ValuesSource:
    """Rows of plain values (see `model.types`), already converted to the types of the stream."""

    rows: tuple[tuple[object, ...], ...]

    def describe(self) -> str:
        return f"VALUES ({len(self.rows)} row{'' if len(self.rows) == 1 else 's'})"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:  # noqa: ARG002
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(schema):
                raise SourceError(
                    f"row {number} of VALUES has {len(row)} value{'s' * (len(row) != 1)}",
                    expected=f"{len(schema)}, one for each of: {', '.join(schema.names)}",
                )
        columns = [
            _column([row[position] for row in self.rows], field)
            for position, field in enumerate(schema)
        ]
        if self.rows:
            yield Chunk(pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def _column(values: list[object], field: Field) -> pa.Array:
    try:
        return to_arrow(values, field.type)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise SourceError(
            f"VALUES: column {field.name}: {error}", expected=f"values of {field.type}"
        ) from error
