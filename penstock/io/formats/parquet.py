"""Parquet: files batch by batch, only the declared columns; and results in row groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet
import pyarrow.parquet as pq

from penstock.errors import SourceError
from penstock.io.formats.arrow import check_columns, fit_batches
from penstock.io.formats.data_file import DataFile
from penstock.io.sources.rejects import StreamRejects
from penstock.model.types import Schema

BATCH = 65_536  # rows
_BUFFER = 1 << 20  # bytes of a column that are read at once
_MAGIC = b"PAR1"


def read_parquet(
    file: DataFile, schema: Schema, rejects: StreamRejects, batch: int = BATCH
) -> Iterator[pa.RecordBatch]:
    with file.reading("Parquet"):
        file.refuse_strange()
        with file.path.open("rb") as stream:
            if stream.read(len(_MAGIC)) != _MAGIC:
                raise SourceError(
                    f"{file.name} is not a Parquet file",
                    expected="a file that begins with PAR1",
                    hint="FORMAT CSV or FORMAT JSON, if it is text",
                )
        with pa.parquet.ParquetFile(
            file.path,
            # otherwise all columns of the file come to memory before the first row does
            pre_buffer=False,
            buffer_size=_BUFFER,
            # the old 96-bit timestamps hold more centuries than 64 bits of nanoseconds do
            coerce_int96_timestamp_unit="us",
        ) as parquet:
            names = parquet.schema_arrow.names
            positions = check_columns(parquet.schema_arrow, schema, file.name)
            wanted = list(dict.fromkeys(names[position] for position in positions))
            batches = parquet.iter_batches(batch_size=batch, columns=wanted)
            yield from fit_batches(_counted(batches, parquet, file), schema, file.name, rejects)


def _counted(
    batches: Iterator[pa.RecordBatch], parquet: pa.parquet.ParquetFile, file: DataFile
) -> Iterator[pa.RecordBatch]:
    """Measure the progress of reading by rows, because columns lie apart in the file."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        file.meter.set(file.size * rows // parquet.metadata.num_rows)
        yield batch


# Results as Parquet: batches are put together to row groups that are worth reading.

ROW_GROUP = 65_536  # rows


class ParquetWriter:
    """Writes results as Parquet, in row groups that are large enough to read well."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._held: list[pa.RecordBatch] = []
        self._writer: pq.ParquetWriter | None = None

    def begin(self, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(self._out, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        if sum(each.num_rows for each in self._held) >= ROW_GROUP:
            self._write_group()

    def flush(self) -> None:
        """No-op: a file cannot be read before its end, so small row groups would be of no use."""

    def end(self) -> None:
        assert self._writer is not None
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Close a file that will never be read."""
        if self._writer is not None:
            self._writer.close()

    def _write_group(self) -> None:
        assert self._writer is not None
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held))
            self._held = []
