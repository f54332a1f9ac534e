"""Rows that a stream leaves out, and why: kept in a log, or fatal when the log is strict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from penstock.errors import SourceError, shortened
from penstock.model.schema import Field
from penstock.model.texts import to_json


class RejectKind(Enum):
    BAD_ROW = "bad row"  # it could not be read
    NO_PROGRESS = "no progress value"  # NULL in the progressing attribute
    FUTURE = "too far in the future"  # beyond the FUTURE LIMIT of the stream


@dataclass(frozen=True, slots=True)
class Reject:
    kind: RejectKind
    stream: str
    source: str  # a file's name, or '' where the source has no parts
    row: int  # counts the data rows of the file or source, from 1
    column: str | None
    reason: str
    content: str  # the row as JSON text

    def __str__(self) -> str:
        place = f"{self.source}, row {self.row}" if self.source else f"row {self.row}"
        column = f", column {self.column}" if self.column is not None else ""
        return f"stream {self.stream}: {place}{column}: {self.reason}"


_COLUMNS = pa.schema(
    [
        ("kind", pa.string()),
        ("stream", pa.string()),
        ("source", pa.string()),
        ("row", pa.int64()),
        ("column", pa.string()),
        ("reason", pa.string()),
        ("content", pa.string()),
    ]
)


class RejectLog:
    """All rejects of a run.

    >>> log = RejectLog()
    >>> log.of("readings").add(RejectKind.BAD_ROW, "a.csv", 7, "n", "'abc' is not an INT", "{}")
    >>> print(*log)
    stream readings: a.csv, row 7, column n: 'abc' is not an INT
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self._rejects: list[Reject] = []

    def add(self, reject: Reject) -> None:
        if self.strict:
            raise SourceError(
                str(reject),
                expected="rows that fit the stream, because the run is strict",
                hint=f"mend the row: {shortened(reject.content)}",
            )
        self._rejects.append(reject)

    def of(self, stream: str) -> StreamRejects:
        return StreamRejects(self, stream)

    def count(self, kind: RejectKind | None = None) -> int:
        if kind is None:
            return len(self._rejects)
        return sum(reject.kind is kind for reject in self._rejects)

    def __iter__(self) -> Iterator[Reject]:
        return iter(self._rejects)

    def __len__(self) -> int:
        return len(self._rejects)

    def table(self) -> pa.Table:
        columns = {name: [getattr(each, name) for each in self] for name in _COLUMNS.names}
        columns["kind"] = [each.kind.value for each in self]
        return pa.table(columns, schema=_COLUMNS)


@dataclass(frozen=True, slots=True)
class StreamRejects:
    """The log as one stream sees it."""

    log: RejectLog
    stream: str

    def add(
        self,
        kind: RejectKind,
        source: str,
        row: int,
        column: str | None,
        reason: str,
        content: str,
    ) -> None:
        self.log.add(Reject(kind, self.stream, source, row, column, reason, content))

    def bad_rows(self, source: str) -> list[int]:
        """The numbers of the rows of a part that could not be read, ascending."""
        return sorted(
            reject.row
            for reject in self.log
            if reject.kind is RejectKind.BAD_ROW
            and (reject.stream, reject.source) == (self.stream, source)
        )

    def set_aside(
        self,
        kind: RejectKind,
        source: str,
        readable: int,
        cells: Iterable[tuple[Field, Any]],
        column: str,
        reason: str,
    ) -> None:
        """A row that could be read but cannot take part; `readable` counts such rows alone."""
        row = readable
        for unreadable in self.bad_rows(source):
            row += unreadable <= row
        shown = (
            f"{json.dumps(field.name)}: {to_json(value, field.type)}" for field, value in cells
        )
        self.add(kind, source, row, column, reason, "{" + ", ".join(shown) + "}")

    def bad_row(self, source: str, row: int, column: str | None, reason: str, content: str) -> None:
        self.add(RejectKind.BAD_ROW, source, row, column, reason, content)
