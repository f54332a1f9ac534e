"""Results in a directory, a file for every epoch that has some: whoever reads it sees whole files.

An epoch that is run again after a failure writes the same file again, and files of epochs that were
never completed are removed, so that every row is there exactly once.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from penstock.durable import read_json, sync_directory, write_json
from penstock.errors import SinkError
from penstock.sinks.output import Output, OutputFormat

_OWNER = "_penstock.json"  # Spark and others pass over names that begin so
_PART = re.compile(r"part-(\d+)\.\w+")
A_PART = "part-00000001.parquet"  # what a file in a directory is called


class PartFiles:
    def __init__(self, directory: Path, output_format: OutputFormat, owner: str) -> None:
        """`owner` is the checkpoint that the files belong to."""
        self._directory = directory
        self._format = output_format
        self._owner = owner
        self._waiting: list[pa.RecordBatch] = []
        self._begun = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"cannot make {directory}: {error.strerror}") from None
        self._is_claimed()

    def _is_claimed(self) -> bool:
        """Whether the directory is known to be the owner's; one of somebody else is refused."""
        found = read_json(self._directory / _OWNER)
        if found["owner"] != self._owner if found is not None else self._parts():
            raise SinkError(
                f"{self._directory} holds results of another run",
                expected="a new directory, or the one that this checkpoint has written to",
                hint="another directory, or delete that one",
            )
        return found is not None

    def begin(self, schema: pa.Schema) -> None:
        """Batches say what they are."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)

    def commit(self, epoch: int) -> None:
        """Everything of an epoch has come."""
        if not self._begun:
            self._begun = True
            if not self._is_claimed():
                write_json(self._directory / _OWNER, {"owner": self._owner})
            for path, number in self._parts():
                if number >= epoch:
                    path.unlink()
        path = self._directory / f"part-{epoch:08}.{self._format.value}"
        if self._waiting:
            with Output(self._format, path) as output:
                output.write(_joined(self._waiting))
            sync_directory(self._directory)
        else:
            path.unlink(missing_ok=True)
        self._waiting = []

    def flush(self) -> None:
        """Files appear when an epoch is complete."""

    def end(self) -> None:
        """Nothing is open."""

    def _parts(self) -> list[tuple[Path, int]]:
        found = [(path, _PART.fullmatch(path.name)) for path in self._directory.iterdir()]
        return [(path, int(match[1])) for path, match in found if match is not None]


def _joined(batches: list[pa.RecordBatch]) -> pa.Table:
    """Late tuples of different operators have different columns."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="permissive")
