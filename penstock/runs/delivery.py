"""From what a program or the command names to sinks: functions, files, directories, the terminal.

Without a checkpoint a file appears when the run has ended, whole.  With one, rows are kept epoch by
epoch, in a file that grows or in a directory of files, and a run that goes on later goes on there.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from penstock.errors import SinkError
from penstock.runs.options import RunOptions
from penstock.runs.targets import SinkLike, Target
from penstock.sinks.appended_file import AppendedFile
from penstock.sinks.callback import Callback
from penstock.sinks.ledger import Ledger
from penstock.sinks.output import Output, OutputFormat, format_by_ending
from penstock.sinks.part_files import PartFiles
from penstock.sinks.sink import Sink

SIDES = ("rows", "late", "rejected")


class Delivery:
    """The sinks of some queries.  Files are put into place when the delivery is left without an
    error.  `rows` hands functions dictionaries; `formats` are those of rows, and of late and
    rejected ones, where something else than the name of a place decides.  A `ledger` that others
    write in as well knows the outputs of this delivery by its `name`."""

    def __init__(
        self,
        options: RunOptions,
        rows: bool = False,
        formats: tuple[OutputFormat | None, OutputFormat | None] = (None, None),
        ledger: Ledger | None = None,
        name: str = "",
    ) -> None:
        self._shared = ledger
        self._name = name
        self._options = options
        self._rows = rows
        self._formats = formats
        self._outputs = ExitStack()

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, *error: object) -> None:
        self._outputs.__exit__(*error)  # type: ignore[arg-type]

    def targets(self, sinks: Sequence[Sequence[SinkLike | None]]) -> list[Target]:
        """Where the rows, the late tuples and the rejected rows of every query go."""
        several = len(sinks) > 1
        made = []
        ledger = self._ledger()
        for number, given in enumerate(sinks):
            prefix = f"{number}/" if several else self._name
            rows, late, rejected = (
                None if each is None and side != "rows" else self._sink(each, prefix + side, ledger)
                for each, side in zip(given, SIDES, strict=True)
            )
            assert rows is not None
            made.append(Target(rows, late, rejected, ledger))
        return made

    def _ledger(self) -> Ledger | None:
        if self._shared is None and self._options.checkpoint is not None:
            self._shared = Ledger(self._options.checkpoint / "outputs.json")
        return self._shared

    def _sink(self, given: SinkLike | None, name: str, ledger: Ledger | None) -> Sink:
        if isinstance(given, str | Path):
            is_directory = isinstance(given, str) and given.endswith("/")
            return self._at(Path(given), is_directory, name, ledger)
        if given is None and ledger is not None:
            raise SinkError(
                "standard output cannot be gone on with: after a kill, rows would be missing there"
                " or come twice",
                expected="a .jsonl or .csv file, or a directory, because there is a checkpoint",
                hint="--output rows.jsonl",
            )
        if given is None:
            output = Output(self._formats[0] or OutputFormat.TABLE, None)
            return self._outputs.enter_context(output).result()
        if isinstance(given, Sink):
            return given
        if callable(given):
            return Callback(given, self._rows)
        raise SinkError(
            f"a {type(given).__name__} is not a sink",
            expected="a function, the name of a file or of a directory, or an object with begin,"
            " write, flush and end",
        )

    def _at(self, path: Path, is_directory: bool, name: str, ledger: Ledger | None) -> Sink:
        given = self._formats[not name.endswith(SIDES[0])]
        owner = f"{ledger.owner}{self._name}" if ledger is not None else uuid.uuid4().hex
        if is_directory or path.is_dir() or not path.suffix:
            return PartFiles(path, given or OutputFormat.PARQUET, owner, ledger, name)
        chosen = given or format_by_ending(path)
        if ledger is not None:
            return AppendedFile(path, chosen, ledger, name, owner)
        return self._outputs.enter_context(Output(chosen, path)).result()
