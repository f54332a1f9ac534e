"""What every sink takes: the rows of one result, batch by batch."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa


@runtime_checkable
class Sink(Protocol):
    """`begin` comes first, then batches as they are released, and `end` when nothing follows: all
    rows are there, or the run was stopped.  A run that fails ends nothing."""

    def begin(self, schema: pa.Schema) -> None: ...

    def write(self, batch: pa.RecordBatch) -> None: ...

    def flush(self) -> None:
        """Nothing may come for a while: show what is there."""
        ...

    def end(self) -> None: ...


class Collected:
    """Rows gathered in memory."""

    def __init__(self) -> None:
        self._schema = pa.schema([])
        self._batches: list[pa.RecordBatch] = []

    def begin(self, schema: pa.Schema) -> None:
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def flush(self) -> None:
        """Memory needs none."""

    def end(self) -> None:
        """Memory needs none."""

    def take(self) -> list[pa.RecordBatch]:
        """The batches that nobody has taken yet."""
        taken, self._batches = self._batches, []
        return taken

    @property
    def batches(self) -> list[pa.RecordBatch]:
        return self._batches

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, self._schema)
