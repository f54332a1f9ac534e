"""Results with a checkpoint: a directory with a file for every epoch that has rows, or one file
that is appended to.

Readers of a directory see whole files only. An epoch that is replayed after a failure writes the
same file again, and files of epochs that were never completed are removed, so that every row is
there exactly once."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TextIO

import pyarrow as pa

from penstock.errors import SinkError
from penstock.io.durable_files import (
    create_json,
    create_whole,
    has_created,
    make_room,
    replace_empty,
    settle,
    sync_directory,
)
from penstock.io.sinks.claims import (
    OWNER,
    belongs_to,
    cut_file,
    drop_parts,
    ending_of,
    is_as_marked,
    leave,
    number_of,
    parts_of,
)
from penstock.io.sinks.output import Output, OutputFormat, cannot_write
from penstock.io.sinks.sink import Ledger, Mark, OutputKind, Sink
from penstock.io.sinks.text import CsvWriter, JsonLinesWriter

A_PART = "part-00000001.parquet"  # what a file in a directory is called


class PartFiles:
    """Writes results to a directory, one file for each epoch, exactly once."""

    def __init__(
        self,
        directory: Path,
        output_format: OutputFormat,
        owner: str,
        ledger: Ledger | None = None,
        name: str = "",
    ) -> None:
        """Open an output. `owner` is the checkpoint that the files belong to; in its `ledger` the
        directory is noted by the `name` of the output."""
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
        """Whether the directory is known to be the owner's; raises if it belongs to another one."""
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
        """No-op: batches have schemas."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)

    def prepare(self, epoch: int) -> None:
        """Claim the directory, remove files of an earlier attempt at the epoch, and note in the
        ledger, which has to be written next, that there is going to be a part of it."""
        if not self._begun:
            try:
                self._begin(epoch)
            except OSError as error:
                raise cannot_write(self._directory, None, error) from None
            self._begun = True
        if self._waiting and self._ledger is not None:
            self._note(self._ledger, epoch)

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
            self._note(ledger, epoch - 1)
        drop_parts(self._directory, epoch)

    def _note(self, ledger: Ledger, epoch: int) -> None:
        """Note in the ledger that there is going to be a part of an epoch."""
        if Mark(epoch, 0) not in ledger.marks(self._name, self._place):
            ledger.note(self._name, self._place, Mark(epoch, 0), kind=OutputKind.DIRECTORY)

    def commit(self, epoch: int) -> None:
        """Write the file of an epoch."""
        self.prepare(epoch)
        if self._ledger is not None:
            self._ledger.write()
        if not (self._directory / OWNER).exists():
            raise self._is_lost("while the run was writing to it")
        path = self._directory / f"part-{epoch:08}.{self._format.value}"
        if self._waiting:
            with Output(self._format, path) as output:
                output.write(_concatenated(self._waiting))
            try:
                sync_directory(self._directory)
            except OSError as error:
                raise cannot_write(self._directory, None, error) from None
        else:
            path.unlink(missing_ok=True)
        self._waiting = []

    def flush(self) -> None:
        """No-op: files appear when an epoch is complete."""

    def end(self) -> None:
        """No-op: no file is open."""


def _concatenated(batches: list[pa.RecordBatch]) -> pa.Table:
    """Concatenate batches; late tuples of different operators have different columns."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="permissive")


# A file that a run with a checkpoint appends to: cut back to what was saved, then continued.
#
# After a kill the file may hold rows that the state of the run does not know of.  They are cut
# off before the first new ones are written, because the run makes them again.  What the file is
# going to hold is noted in the ledger before it is written, so that rows of another run are told
# from those of an epoch that was not saved: a file that holds them is refused, and nothing of it
# is cut off.

_WRITERS: dict[OutputFormat, Callable[[TextIO], Sink]] = {
    OutputFormat.JSONL: JsonLinesWriter,
    OutputFormat.CSV: CsvWriter,
}
_ELSEWHERE = "put it back, or name another --output, where the rows go on"


class AppendedFile:
    """A file that rows are appended to when an epoch is committed, exactly once."""

    def __init__(
        self,
        path: Path,
        output_format: OutputFormat,
        ledger: Ledger,
        name: str,
        owner: str | None = None,
    ) -> None:
        """Open an output; `owner` is the owner of directories of the same output, if it is not the
        ledger."""
        if output_format not in _WRITERS:
            raise SinkError(
                f"{path}: a {output_format.value} file cannot be gone on with",
                expected="a .jsonl or .csv file, or a directory, because there is a checkpoint",
                hint=f"--output {path.with_suffix('')}/",
            )
        self._path = path.resolve()
        self._place = str(self._path)
        self._shown = path
        self._format = output_format
        self._ledger = ledger
        self._name = name
        self._owner = owner or ledger.owner
        self._columns: list[str] | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._content = b""  # of those that wait, once they are prepared
        self._prepared: tuple[int, int] | None = None  # for which epoch, and how many batches
        self._length: int | None = None  # None: not cut back yet
        self._inode = 0
        self._check()

    # --- whether the file is what this run left there ---------------------------------------------

    def _check(self) -> None:
        """Refuse a file that is not as this checkpoint left it, before anything is read."""
        if not self._path.exists():
            marks = self._ledger.marks(self._name, self._place)
            if marks:
                self._check_size(0, marks[0].length)
            return
        if not self._ledger.was_at(self._name, self._place) and self._has_moved():
            self._ledger.move(self._name, self._place)
        marks = self._ledger.marks(self._name, self._place)
        if marks:
            self._check_content(marks[0].length, marks)
        elif not has_created(self._path, self._ledger.owner):
            raise self._is_of_another()

    def _is_of_another(self) -> SinkError:
        elsewhere = self._ledger.place(self._name)
        elsewhere = None if elsewhere == self._place else elsewhere
        return SinkError(
            f"{self._shown} is there already, and this checkpoint knows nothing of it"
            + (f": its rows are in {elsewhere}" if elsewhere else ""),
            expected="a file that the checkpoint has written, or none",
            hint="another --output, or move the file away",
        )

    def _has_moved(self) -> bool:
        """Whether this is the file that was elsewhere when the checkpoint was saved: it has the
        same bytes at the noted end."""
        marks = self._ledger.all_marks(self._name)
        size = self._path.stat().st_size
        if not marks or self._ledger.kind(self._name) is not OutputKind.FILE:
            return False
        if size < marks[0].length:
            return False
        # earlier versions have not marked how a file ended
        known = not size or all(mark.ending for mark in marks if mark.length <= size)
        return known and is_as_marked(self._path, marks)

    def _check_content(self, length: int, marks: Sequence[Mark]) -> None:
        """Whether the file holds the saved rows, and none that the run has not written."""
        size, last = self._path.stat().st_size, marks[-1].length
        self._check_size(size, length)
        at_former = self._ledger.place(self._name) != self._place
        if size > last and (at_former or self._ledger.is_ahead(self._name)):
            raise SinkError(
                f"{self._shown} has {size:,} bytes, and this checkpoint has written {last:,}:"
                " the others are not its own",
                expected="the file as it was left",
                hint=_ELSEWHERE,
            )
        if not is_as_marked(self._path, marks):
            raise SinkError(
                f"{self._shown} is not the file that this checkpoint has written: it had"
                f" {length:,} bytes, and they are not the same any more",
                expected="the file as it was left",
                hint=_ELSEWHERE,
            )

    def _check_size(self, size: int, length: int) -> None:
        if size < length:
            raise SinkError(
                f"{self._shown} had {length:,} bytes when the checkpoint was saved, and"
                f" has {size:,} now",
                expected="the file as it was left",
                hint=_ELSEWHERE,
            )

    # --- rows ------------------------------------------------------------------------------------

    def begin(self, schema: pa.Schema) -> None:
        known = self._ledger.columns(self._name, self._place)
        if self._format is OutputFormat.CSV and known is not None and known != schema.names:
            raise SinkError(
                f"{self._shown} has the columns {', '.join(known)},"
                f" and the rows have {', '.join(schema.names)}",
                expected="the same columns in the same order",
                hint="another --output",
            )
        self._columns = schema.names

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)

    def flush(self) -> None:
        """No-op: rows appear when they are committed."""

    def end(self) -> None:
        """No-op: no file is open."""

    def prepare(self, epoch: int) -> None:
        """Claim the file, cut it back to what was saved before an epoch, and note in the ledger,
        which has to be written next, what it is going to hold."""
        if self._prepared == (epoch, len(self._waiting)):
            return
        try:
            if self._length is None:
                self._length = self._cut_back(epoch)
            content = self._text()
            if content:
                self._opened().close()
            length = self._length + len(content)
            marks = self._ledger.marks(self._name, self._place)
            if any(mark.length != length for mark in marks):  # otherwise they say it all
                mark = Mark(epoch, length, ending_of(self._path, self._length, content))
                self._ledger.note(self._name, self._place, mark, self._columns)
        except OSError as error:
            raise cannot_write(self._path, self._shown, error) from None
        self._content = content
        self._prepared = (epoch, len(self._waiting))

    def commit(self, epoch: int) -> None:
        """Bring the rows of an epoch to disk."""
        if self._prepared != (epoch, len(self._waiting)):
            self.prepare(epoch)
            self._ledger.write()
        assert self._length is not None
        try:
            settle(self._path, self._ledger.owner)
            if self._content:
                self._append(self._content)
        except OSError as error:
            raise cannot_write(self._path, self._shown, error) from None
        self._length += len(self._content)
        self._waiting, self._content, self._prepared = [], b"", None

    def _append(self, content: bytes) -> None:
        with self._opened() as file:
            file.seek(0, os.SEEK_END)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not self._path.exists() or self._path.stat().st_ino != self._inode:
            raise self._changed_meanwhile("another file has taken its place")

    def _opened(self) -> IO[bytes]:
        """The file, if it is still the one that the run has written to."""
        try:
            file = self._path.open("r+b")  # which does not make a new one
        except FileNotFoundError:
            raise self._changed_meanwhile("it is gone") from None
        found = os.fstat(file.fileno())
        if (found.st_ino, found.st_size) == (self._inode, self._length):
            return file
        file.close()
        if found.st_ino != self._inode:
            raise self._changed_meanwhile("another file has taken its place")
        raise self._changed_meanwhile(f"it had {self._length:,} bytes, and has {found.st_size:,}")

    def _changed_meanwhile(self, how: str) -> SinkError:
        return SinkError(
            f"{self._shown} was changed while the run was writing to it: {how}",
            expected="a file that nobody else writes to, moves or removes",
            hint=_ELSEWHERE,
        )

    def _cut_back(self, epoch: int) -> int:
        marks = self._ledger.marks(self._name, self._place)
        known = [mark for mark in marks if mark.epoch < epoch]
        if marks and not known:
            raise SinkError(
                f"{self._shown} is ahead of the checkpoint, which has been set back",
                expected="the file as it was when that checkpoint was saved",
                hint="put back a copy of the file as well, or name another --output",
            )
        length = known[-1].length if known else 0
        if not marks or not self._path.exists():
            self._check_size(0, length)
            if not create_whole(self._path, b"", self._ledger.claim()):
                raise self._is_of_another()
        if marks:
            self._check_content(length, marks)
        if self._ledger.place(self._name) != self._place:
            leave(self._ledger, self._name, epoch, self._owner)
        # so that the first epoch, too, can come again
        mark = known[-1] if known else Mark(epoch - 1, 0)
        cut_file(self._path, length)
        if not length:
            mark = replace(mark, ending=self._own_empty(mark))
        if mark not in self._ledger.marks(self._name, self._place) or (
            self._ledger.place(self._name) != self._place
        ):
            self._ledger.note(self._name, self._place, mark)
        self._inode = self._path.stat().st_ino
        return length

    def _own_empty(self, mark: Mark) -> str:
        """Number of a file of which no row has been saved. A copy, which is empty, may belong to
        another run as well: it is exchanged for a new file."""
        if mark.ending and mark.ending != number_of(self._path):
            owner = self._ledger.owner
            if not has_created(self._path, owner) and not replace_empty(self._path, owner):
                raise self._is_of_another()
        return number_of(self._path)

    def _text(self) -> bytes:
        text = io.StringIO()
        writer = _WRITERS[self._format](text)
        if self._columns is not None and not self._length:
            writer.begin(pa.schema([(name, pa.null()) for name in self._columns]))
        for batch in self._waiting:
            writer.write(batch)
        if self._columns is not None:
            writer.end()  # the header stands there even if no row ever comes
        return text.getvalue().encode()
