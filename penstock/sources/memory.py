"""Data that the program already holds: Arrow, pandas, Polars, or an iterable of rows or batches.

pandas and Polars are not imported here: whoever passes one of their frames has done it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.errors import SourceError
from penstock.model.schema import Schema
from penstock.sources.arrow_columns import check_columns, fit_batches
from penstock.sources.asynchronous import AsyncSource, async_source
from penstock.sources.infer import SAMPLE, schema_of_arrow, schema_of_rows
from penstock.sources.rejects import StreamRejects
from penstock.sources.replay import Replay, rereadable
from penstock.sources.rows import RowSource
from penstock.sources.source import Chunk

BATCH = 65_536  # rows
_EXPECTED = (
    "an Arrow Table, RecordBatch or RecordBatchReader, a pandas or Polars DataFrame,"
    " an iterable of dicts, tuples or RecordBatches, or an asynchronous iterable of rows"
)


@dataclass(frozen=True, slots=True)
class BatchSource:
    batches: Iterable[pa.RecordBatch]  # can be read again and again
    name: str

    def describe(self) -> str:
        return f"MEMORY ({self.name})"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        for batch in fit_batches(self._checked(), schema, "", rejects):
            if batch.num_rows:
                yield Chunk(batch)

    def _checked(self) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(self.batches, start=1):
            if not isinstance(batch, pa.RecordBatch):
                raise SourceError(
                    f"item {number} of the batches is a {type(batch).__name__}",
                    expected="a RecordBatch, like the first one",
                )
            yield batch


MemorySource: TypeAlias = BatchSource | RowSource | AsyncSource


def memory_source(data: object, schema: Schema | None = None) -> tuple[MemorySource, Schema]:
    """A source for the data, and its schema: the given one, else as the data suggests.

    >>> source, schema = memory_source([{"id": 1, "name": "a"}, {"id": 2.5}])
    >>> print(source.describe(), "|", schema)
    MEMORY (list) | id DOUBLE, name STRING
    """
    name = _name(data)
    live = async_source(data, name)
    if live is not None:
        if schema is None:
            raise SourceError("asynchronous rows do not show their columns", expected="a schema")
        return live, schema
    arrow = _as_arrow(data)
    if arrow is not None:
        return _batch_source(*arrow, name, schema)
    if not isinstance(data, Iterable) or isinstance(data, str | bytes | Mapping):
        raise SourceError(
            f"a {type(data).__name__} is not a table",
            expected=_EXPECTED,
            hint="pyarrow.table(...) for a dict of columns" if isinstance(data, dict) else None,
        )
    rows: Iterable[Any] = rereadable(data)
    first = next(iter(rows), None)
    if isinstance(first, pa.RecordBatch):
        return _batch_source(rows, first.schema, name, schema)
    return RowSource(rows, name), _schema_of(rows) if schema is None else schema


def _name(data: object) -> str:
    package = type(data).__module__.partition(".")[0]
    name = type(data).__name__
    return name if package == "builtins" else f"{package}.{name}"


def _as_arrow(data: Any) -> tuple[Iterable[pa.RecordBatch], pa.Schema] | None:
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif _is_frame(data, "pandas", "DataFrame"):
        try:
            data = pa.Table.from_pandas(data, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = " ".join(map(str, error.args))
            raise SourceError(f"the DataFrame cannot be converted to Arrow: {reason}") from error
    elif _is_frame(data, "polars", "LazyFrame"):
        data = data.collect().to_arrow()
    elif _is_frame(data, "polars", "DataFrame"):
        data = data.to_arrow()
    if isinstance(data, pa.Table):
        return data.to_batches(max_chunksize=BATCH), data.schema
    if isinstance(data, pa.RecordBatchReader):
        return Replay(data), data.schema
    return None


def _is_frame(data: object, package: str, name: str) -> bool:
    return any(
        each.__name__ == name and each.__module__.partition(".")[0] == package
        for each in type(data).__mro__
    )


def _batch_source(
    batches: Iterable[pa.RecordBatch], found: pa.Schema, name: str, schema: Schema | None
) -> tuple[MemorySource, Schema]:
    if schema is None:
        schema = schema_of_arrow(found)
    check_columns(found, schema, "")  # now rather than when the query runs
    return BatchSource(batches, name), schema


def _schema_of(rows: Iterable[object]) -> Schema:
    sample = list(islice(rows, SAMPLE))
    if not sample:
        raise SourceError("there are no rows to take a schema from", expected="a schema")
    named = [row for row in sample if isinstance(row, Mapping)]
    if not named:
        raise SourceError(
            f"rows of class {type(sample[0]).__name__} do not name their columns",
            expected="a schema, or dicts",
        )
    return schema_of_rows(named)
