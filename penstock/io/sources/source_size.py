"""Size and bounds of a source, as far as they are known without reading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from penstock.errors import PenstockError, SourceError
from penstock.io.formats.arrow import fit_column
from penstock.io.formats.rows import RowSource
from penstock.io.sources.files import FileFormat, FileSource, format_of
from penstock.io.sources.memory import BatchSource, ValuesSource
from penstock.io.sources.source import Source
from penstock.model.types import Schema, Type
from penstock.model.values import to_arrow

_FILES = 32  # more footers than that are not looked at
_SIZES = 1000  # nor so many sizes: what is known is that there are as many rows or more
_BYTES = 32  # that a row of a file has, if nothing is known
_BATCHES = 256  # more batches than that are not looked at one by one


@runtime_checkable
class ExpectsRows(Protocol):
    """A source that estimates its number of rows."""

    def rows_expected(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class SourceExtent:
    """The number of rows; the lowest and the highest value of a column, as an array of two; the
    number of batches, and the highest value in each. None where it is not known."""

    rows: int
    bounds: pa.Array | None = None
    batches: int | None = None
    ends: pa.Array | None = None


def extent(source: Source, schema: Schema, column: str) -> SourceExtent | None:
    """Number of rows and bounds of a column, from data in memory or the footers of Parquet files;
    nothing else is opened. Faults of a source are left to its reader to report."""
    field = schema.fields[schema.index(column)]
    found: SourceExtent | None
    try:
        match source:
            case BatchSource(list() as batches):
                found = _of_batches(batches, column)
            case RowSource(list() | tuple() as rows):
                found = SourceExtent(len(rows))
            case ValuesSource(rows):
                place = schema.index(column)
                values = [row[place] for row in rows if row[place] is not None]
                found = SourceExtent(len(rows), _bounds(to_arrow(values, field.type)))
            case FileSource():
                found = _of_files(source, column)
            case _:
                return None
        if found is None or found.bounds is None:
            return found
        bounds, ends = (
            None if values is None else _fitted(values, field.type)
            for values in (found.bounds, found.ends)
        )
        return SourceExtent(found.rows, bounds, found.batches, ends)
    except (pa.ArrowException, PenstockError, OSError, LookupError, OverflowError, ValueError):
        return None


def _fitted(values: pa.Array, declared: Type) -> pa.Array:
    column, bad = fit_column(values, declared)
    if bad.any():
        raise SourceError(f"values that do not fit {declared}")
    return column


def rows_expected(source: Source, schema: Schema) -> int | None:
    """Estimate the number of rows: as `extent` knows it, as the source itself expects, or as fit
    into files of that size; None if nothing is known."""
    found = extent(source, schema, schema.fields[0].name)
    if found is not None:
        return found.rows
    if isinstance(source, ExpectsRows):
        return source.rows_expected()
    if isinstance(source, FileSource):
        try:
            size, _ = source.size_expected(_SIZES)
        except (OSError, PenstockError):
            return None
        return size // _BYTES
    return None


def _of_batches(batches: list[pa.RecordBatch], column: str) -> SourceExtent:
    rows = sum(batch.num_rows for batch in batches)
    table = pa.Table.from_batches(batches) if batches else None
    bounds = _bounds(table.column(column)) if table is not None else None
    return SourceExtent(rows, bounds, len(batches), _ends(batches, column))


def _ends(batches: list[pa.RecordBatch], column: str) -> pa.Array | None:
    """Highest value of each batch; None if one of them has no value, or there are very many."""
    if not 0 < len(batches) <= _BATCHES:
        return None
    found = [pc.max(batch.column(column)) for batch in batches]
    return pa.array(found, found[0].type) if all(each.is_valid for each in found) else None


def _bounds(values: Any) -> pa.Array | None:
    found = pc.min_max(values)
    if not found["min"].is_valid:
        return None
    return pa.array([found["min"], found["max"]], found["min"].type)


def _of_files(source: FileSource, column: str) -> SourceExtent | None:
    names = source.few_parts(_FILES)
    if names is None:
        return None
    formats = {source.format or format_of(name) for name in names}
    if formats != {FileFormat.PARQUET}:
        return None
    rows, ends = 0, []
    for name in names:
        with pa.parquet.ParquetFile((source.base or Path.cwd()) / name) as file:
            metadata = file.metadata
            place = file.schema_arrow.names.index(column)
            rows += metadata.num_rows
            for number in range(metadata.num_row_groups):
                statistics = metadata.row_group(number).column(place).statistics
                if statistics is None or not statistics.has_min_max:
                    return SourceExtent(rows)
                ends += [statistics.min, statistics.max]
            kind = file.schema_arrow.field(place).type
    return SourceExtent(rows, _bounds(pa.array(ends, kind)) if ends else None)
