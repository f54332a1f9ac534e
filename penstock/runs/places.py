"""Files and directories that runs write: each by one output alone, and none that they read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from penstock.errors import SinkError
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Scan
from penstock.runs.targets import SinkLike
from penstock.sinks.part_files import A_PART
from penstock.sources.files import FileSource

_WHAT = ("rows", "late tuples", "rejected rows")


def check_places(queries: Iterable[QueryPlan], sinks: Sequence[Sequence[SinkLike | None]]) -> None:
    """`sinks` are for rows, late tuples and rejected rows: of some queries, or of all together."""
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
    """The file or the directory, through links; None for what is no place of its own: functions,
    pipes, devices."""
    if not isinstance(sink, str | Path):
        return None
    path = Path(os.path.realpath(sink))
    return None if path.exists() and not path.is_file() and not path.is_dir() else path


def _files_read(queries: Iterable[QueryPlan]) -> Iterator[tuple[str, FileSource]]:
    """The streams and tables that are in files."""
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
