"""A driver in a process of its own, to be killed: runs queries on Spark, one after the other, and
keeps the checkpoint and the results of each in a directory.

python driver.py MASTER PORTIONS DIRECTORY QUERY.sql…
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import penstock as ps
from penstock.answer import plainly_named
from penstock.sinks.output import OutputFormat
from penstock.sinks.part_files import PartFiles
from penstock.sources.rejects import Reject
from penstock.spark.run import Options, SparkRun
from penstock.spark.session import session


class ToFiles:
    """Results in one directory, late tuples in another."""

    def __init__(self, directory: Path) -> None:
        self._rows = PartFiles(directory / "rows", OutputFormat.JSONL, "test")
        self._late = PartFiles(directory / "late", OutputFormat.JSONL, "test")

    def on_rows(self, batch: pa.RecordBatch) -> None:
        self._rows.write(batch)

    def on_late(self, batch: pa.RecordBatch) -> None:
        self._late.write(plainly_named(batch))

    def on_rejects(self, rejects: Sequence[Reject]) -> None:
        """The queries have some, and they are counted elsewhere."""

    def commit(self, batch_id: int) -> None:
        self._rows.commit(batch_id)
        self._late.commit(batch_id)
        print("committed", batch_id, flush=True)


def main(master: str, portions: str, directory: str, *queries: str) -> None:
    spark = session(master, {"spark.executor.memory": "512m"})
    for path in map(Path, queries):
        db = ps.connect("reference", base=path.parent)
        *_, query = db.script(path.read_text(encoding="utf-8"))
        assert isinstance(query, ps.Query)
        own = Path(directory) / path.stem
        receiver = ToFiles(own)
        options = Options(own / "checkpoint", portions=int(portions), buckets=2, final=True)
        run = SparkRun(query.plan, spark, receiver, options)
        run.start()
        print("started", path.stem, flush=True)
        run.wait()
    print("ended", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
