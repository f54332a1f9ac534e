"""Results as Parquet: batches are put together to row groups that are worth reading."""

from __future__ import annotations

from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 65_536  # rows


class ParquetWriter:
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
        """A file cannot be read before its end, so small groups would help nobody."""

    def end(self) -> None:
        assert self._writer is not None
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Let go of a file that will never be read."""
        if self._writer is not None:
            self._writer.close()

    def _write_group(self) -> None:
        assert self._writer is not None
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held))
            self._held = []
