"""Delivery: the targets of the rows of queries, checks that outputs do not collide, and the
outcome."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from penstock.errors import SinkError
from penstock.io.sinks.file_sinks import A_PART, AppendedFile, PartFiles
from penstock.io.sinks.output import Output, OutputFormat, format_by_ending
from penstock.io.sinks.sink import Callback, Ledger, Sink
from penstock.io.sources.files import FileSource
from penstock.io.sources.rejects import Reject
from penstock.plan.nodes.join import Lookup
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Account
from penstock.runs.run_options import RunOptions

SinkLike: TypeAlias = Sink | Callable[[Any], object] | str | Path


@dataclass(frozen=True, slots=True)
class Target:
    """The sinks of one query: for its rows, its late tuples, and its rejected rows."""

    rows: Sink
    late: Sink | None = None
    rejected: Sink | None = None
    ledger: Ledger | None = None  # where outputs that a later run goes on with are noted


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run of one query: what it read and wrote, and what still waits in the
    checkpoint."""

    account: Account
    written: int
    first_rejects: list[Reject]
    total: Account | None = None  # of all runs on the checkpoint, if there is one
    open_windows: int | None = None  # that wait in the checkpoint for a later run


# Files and directories that runs write: each by one output only, and none that they read.

_WHAT = ("rows", "late tuples", "rejected rows")


def check_places(queries: Iterable[QueryPlan], sinks: Sequence[Sequence[SinkLike | None]]) -> None:
    """Refuse outputs that collide; `sinks` are for rows, late tuples and rejected rows, of some
    queries or of all together."""
    taken: dict[Path, str] = {}
    for number, given in enumerate(sinks):
        of = f" of query {number + 1}" if len(sinks) > 1 else ""
        for sink, what in zip(given, _WHAT, strict=True):
            place = place_of(sink)
            if place is not None and place in taken:
                raise SinkError(
                    f"the {taken[place]} go to {sink} already, where the {what}{of} are to go",
                    expected="a place of its own for each",
                )
            if place is not None:
                taken[place] = f"{what}{of}"
    for name, source in _files_read(queries):
        for place in taken:
            if source.reads(place / A_PART if _is_directory(place) else place):
                raise SinkError(
                    f"{_shown(place)} is one of the files that {name} is read from"
                    f" ({source.describe()})",
                    expected="a place that nobody reads, because rows are written to it",
                    hint="another directory",
                )


def place_of(sink: SinkLike | None) -> Path | None:
    """File or directory of a sink, through links; None for functions, pipes and devices."""
    if not isinstance(sink, str | Path):
        return None
    path = Path(os.path.realpath(sink))
    return None if path.exists() and not path.is_file() and not path.is_dir() else path


def _files_read(queries: Iterable[QueryPlan]) -> Iterator[tuple[str, FileSource]]:
    """Streams and tables that are read from files."""
    for query in queries:
        for node in _with_tables(query):
            if isinstance(node, Scan) and isinstance(node.stream.source, FileSource):
                yield node.stream.name, node.stream.source


def _with_tables(query: QueryPlan) -> Iterator[object]:
    for node in query.walk():
        yield node
        if isinstance(node, Lookup):
            yield from node.table.walk()


def _is_directory(place: Path) -> bool:
    return place.is_dir() or not place.suffix


def _shown(place: Path) -> str:
    here = Path.cwd()
    return str(place.relative_to(here) if place.is_relative_to(here) else place)


# From the outputs that a program or the command names to sinks: functions, files, directories, the
# terminal.
#
# Without a checkpoint a file appears when the run has ended, whole. With one, rows are kept epoch
# by epoch, in a file that grows or in a directory of files, and a restored run continues there.

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
        """Make the targets of all queries, from the sinks for rows, late tuples and rejected
        rows."""
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
