"""The rows of tables that tuples are looked up in, where the workers of Spark find them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.operators.joins.lookups.lookup import LookupOperator
from penstock.plan.nodes.lookup import Lookup

_MANY = 16  # tables that a worker keeps
_filled: dict[str, LookupOperator] = {}  # of this worker, by the file that the rows are in


@dataclass(frozen=True)
class TableFile:
    """An Arrow file with a batch: at a path that workers see, or `sent` to them by Spark.  No two
    runs have one of the same name."""

    path: str
    sent: bool = False

    @staticmethod
    def write(rows: pa.RecordBatch, path: Path, sent: bool = False) -> TableFile:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_batch(rows)
        return TableFile(str(path), sent)

    def rows(self) -> pa.RecordBatch:
        """In the memory that all processes of a machine share."""
        path = self.path
        if self.sent:
            from pyspark import SparkFiles

            path = SparkFiles.get(Path(path).name)
        return pa.ipc.open_file(pa.memory_map(path)).get_batch(0)


def filled(lookup: Lookup, file: TableFile) -> LookupOperator:
    """The operator of a look-up, which keeps nothing but the table: tasks share it, so that rows
    are put in order once."""
    found = _filled.pop(file.path, None)
    if found is None:
        found = LookupOperator(lookup)
        found.fill(file.rows())
        while len(_filled) >= _MANY:  # of queries that are over, probably
            del _filled[next(iter(_filled))]
    _filled[file.path] = found
    return found
