"""Results in a directory, a file for every epoch that has some: whoever reads it sees whole files.

An epoch that is run again after a failure writes the same file again, and files of epochs that were
never completed are removed, so that every row is there exactly once.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.durable import create_json, make_room, sync_directory
from penstock.errors import SinkError
from penstock.sinks.claims import OWNER, belongs_to, drop_parts, leave, parts_of
from penstock.sinks.ledger import Kind, Ledger, Mark
from penstock.sinks.output import Output, OutputFormat, cannot_write

A_PART = "part-00000001.parquet"  # what a file in a directory is called


class PartFiles:
    def __init__(
        self,
        directory: Path,
        output_format: OutputFormat,
        owner: str,
        ledger: Ledger | None = None,
        name: str = "",
    ) -> None:
        """`owner` is the checkpoint that the files belong to; in its `ledger` the directory is
        noted by the `name` of the output."""
        self._directory = directory
        self._place = str(directory.resolve())
        self._format = output_format
        self._owner = owner
        self._ledger = ledger
        self._name = name
        self._waiting: list[pa.RecordBatch] = []
        self._begun = False
        if not self._is_claimed() and ledger is not None and ledger.was_at(name, self._place):
            raise self._is_lost("since the checkpoint was saved")
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"cannot make {directory}: {error.strerror}"
            raise SinkError(reason, hint=make_room(directory, error)) from None

    def _is_claimed(self) -> bool:
        """Whether the directory is known to be the owner's; one of somebody else is refused."""
        if not self._directory.is_dir():
            return False
        owned = belongs_to(self._directory, self._owner, self._name)
        if owned is False or (owned is None and parts_of(self._directory)):
            raise self._is_of_another()
        return bool(owned)

    def _is_of_another(self) -> SinkError:
        return SinkError(
            f"{self._directory} holds results of another run",
            expected="a new directory, or the one that this checkpoint has written to",
            hint="another directory, or delete that one",
        )

    def _is_lost(self, since: str) -> SinkError:
        return SinkError(
            f"{self._directory} was removed or emptied {since}",
            expected=f"the directory with the rows that have been written, and its {OWNER}",
            hint="put it back, or name another --output, where the rows go on",
        )

    def begin(self, schema: pa.Schema) -> None:
        """Batches say what they are."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)

    def prepare(self, epoch: int) -> None:
        """Claim the directory, and remove what was written of an epoch before."""
        if self._begun:
            return
        try:
            self._begin(epoch)
        except OSError as error:
            raise cannot_write(self._directory, None, error) from None
        self._begun = True

    def _begin(self, epoch: int) -> None:
        ledger = self._ledger
        if ledger is not None:
            ledger.claim()
        if not self._is_claimed():
            record = {"owner": self._owner, "output": self._name}
            if not create_json(self._directory / OWNER, record, self._owner.replace("/", "-")):
                raise self._is_of_another()
        if ledger is not None and ledger.place(self._name) != self._place:
            leave(ledger, self._name, epoch, self._owner)
            ledger.note(self._name, self._place, Mark(epoch - 1, 0), kind=Kind.DIRECTORY)
        drop_parts(self._directory, epoch)

    def commit(self, epoch: int) -> None:
        """Everything of an epoch has come."""
        if not self._begun:
            self.prepare(epoch)
            if self._ledger is not None:
                self._ledger.write()
        if not (self._directory / OWNER).exists():
            raise self._is_lost("while the run was writing to it")
        path = self._directory / f"part-{epoch:08}.{self._format.value}"
        if self._waiting:
            with Output(self._format, path) as output:
                output.write(_joined(self._waiting))
            try:
                sync_directory(self._directory)
            except OSError as error:
                raise cannot_write(self._directory, None, error) from None
        else:
            path.unlink(missing_ok=True)
        self._waiting = []

    def flush(self) -> None:
        """Files appear when an epoch is complete."""

    def end(self) -> None:
        """Nothing is open."""


def _joined(batches: list[pa.RecordBatch]) -> pa.Table:
    """Late tuples of different operators have different columns."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="permissive")
