"""Results in a directory, a file for every micro-batch that has some.

A micro-batch that is run again after a failure writes the same file again, so every row is there
exactly once, whoever reads the directory.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.sinks.output import Output, OutputFormat


class PartFiles:
    def __init__(self, directory: Path, output_format: OutputFormat) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._format = output_format
        self._waiting: list[pa.RecordBatch] = []

    def begin(self, schema: pa.Schema) -> None:
        """Batches say what they are."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)

    def commit(self, batch_id: int) -> None:
        """Everything of a micro-batch has come."""
        path = self._directory / f"part-{batch_id:08}.{self._format.value}"
        if self._waiting:
            with Output(self._format, path) as output:
                output.write(pa.Table.from_batches(self._waiting))
        else:
            path.unlink(missing_ok=True)
        self._waiting = []

    def flush(self) -> None:
        """Files appear when a micro-batch is complete."""

    def end(self) -> None:
        """Nothing is open."""
