"""A sink for rows that nobody wants."""

from __future__ import annotations

import pyarrow as pa


class Discarded:
    """Whoever writes has counted."""

    def begin(self, schema: pa.Schema) -> None:
        """Nothing is kept."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Nothing is kept."""

    def flush(self) -> None:
        """Nothing is kept."""

    def end(self) -> None:
        """Nothing is kept."""
