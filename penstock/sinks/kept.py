"""Rows that are kept in case somebody asks for them: so many, and word if there were more."""

from __future__ import annotations

import logging

import pyarrow as pa

LIMIT = 10_000  # rows: enough to see what is wrong, and nothing to a memory
_LOG = logging.getLogger("penstock")


class Kept:
    """The first rows of a run that may not end.  Without a limit, all of them."""

    def __init__(self, what: str, limit: int | None = LIMIT) -> None:
        self._what = what
        self._limit = limit
        self._schema = pa.schema([])
        self._seen = 0
        self._kept = 0
        self.batches: list[pa.RecordBatch] = []

    def begin(self, schema: pa.Schema) -> None:
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        self._seen += batch.num_rows
        room = batch.num_rows if self._limit is None else self._limit - self._kept
        if room > 0 and batch.num_rows:
            self.batches.append(batch.slice(0, room))
            self._kept += self.batches[-1].num_rows

    def flush(self) -> None:
        """Memory needs none."""

    def end(self) -> None:
        """Memory needs none."""

    @property
    def table(self) -> pa.Table:
        return self.marked(pa.Table.from_batches(self.batches, self._schema))

    def marked(self, table: pa.Table) -> pa.Table:
        """A table of the kept rows that says, in its metadata and in the log, if it is cut."""
        if self._kept == self._seen:
            return table
        cut = f"the first {self._kept:,} of {self._seen:,} {self._what}"
        _LOG.warning("%s are kept; give the run a sink for all of them", cut)
        return table.replace_schema_metadata({"penstock": cut})
