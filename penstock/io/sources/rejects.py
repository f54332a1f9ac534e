"""Rejected rows: why a row was rejected, in words, and the log that keeps them or stops the run."""

from __future__ import annotations

import json
import threading
from array import array
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import pyarrow as pa

from penstock.errors import SourceError, one_line, shortened
from penstock.model.ticks import Domain
from penstock.model.types import Field, Kind, Type
from penstock.model.values import to_json

_WIDTH = 80


def quoted(value: object) -> str:
    """Quote a value as Python writes it, cut to a readable width."""
    text = _written(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 2] + "…" + text[-1]


def is_not(found: str, sql_type: Type) -> str:
    """
    >>> from penstock.model.types import INT
    >>> is_not(quoted("abc"), INT)
    "'abc' is not an INT"
    """
    name = str(sql_type)
    return f"{found} is not {'an' if name[0] in 'AEIOU' else 'a'} {name}"


def does_not_fit(found: str, sql_type: Type) -> str:
    return f"{found} does not fit {sql_type}"


def row_as_json(row: object) -> str:
    """Format a row as JSON text, whatever it is made of.

    >>> row_as_json({"id": 1, "raw": b"\\xff"})
    '{"id": 1, "raw": "ff"}'
    """
    try:
        text = json.dumps(row, default=_plain, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can write
        return json.dumps(row, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_written(row))
    return text


def _written(value: object, how: Callable[[object], str] = repr) -> str:
    try:
        return str(value) if isinstance(value, Decimal) else how(value)
    except Exception:  # an int of thousands of digits, or somebody else's class
        return f"<{type(value).__name__}>"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return _written(value, str)


# The log of rejected rows; an error if it is strict.


class RejectKind(Enum):
    """Reasons for which a row is rejected."""

    BAD_ROW = "bad row"  # it could not be read
    BAD_TABLE_ROW = "bad row of a table"  # the same; rows of tables are not among those of streams
    NO_PROGRESS = "no progress value"  # NULL in the progressing attribute
    FUTURE = "too far in the future"  # beyond the FUTURE LIMIT of the stream
    OUT_OF_RANGE = "out of range"  # its windows reach beyond what their bounds can hold


@dataclass(frozen=True, slots=True)
class Reject:
    """A rejected row: its place in the source, the reason, and its content."""

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
        word = "table" if self.kind is RejectKind.BAD_TABLE_ROW else "stream"
        return one_line(f"{word} {self.stream}: {place}{column}: {self.reason}")


def no_room(value: Any, sql_type: Type) -> str:
    """Reason for a row whose progress value is at the end of its type."""
    if sql_type.kind is Kind.DECIMAL:
        return f"the windows of {value} reach beyond 64 bits"
    return f"the windows of {Domain(sql_type).format(value)} reach beyond the range of {sql_type}"


REJECT_COLUMNS = pa.schema(
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
    """The rejects of a run.

    >>> log = RejectLog()
    >>> log.of("readings").add(RejectKind.BAD_ROW, "a.csv", 7, "n", "'abc' is not an INT", "{}")
    >>> print(*log)
    stream readings: a.csv, row 7, column n: 'abc' is not an INT
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self._rejects: list[Reject] = []
        self._counts: Counter[RejectKind] = Counter()
        self._bad_rows: dict[tuple[str, str], array[int]] = {}  # ascending
        self._turn = threading.Lock()  # a source may be read in a thread of its own

    def add(self, reject: Reject) -> None:
        if self.strict:
            raise SourceError(
                str(reject),
                expected=f"rows that fit the {str(reject).partition(' ')[0]}, because the run is"
                " strict",
                hint=f"mend the row: {shortened(reject.content)}",
            )
        with self._turn:
            self._rejects.append(reject)
            self._counts[reject.kind] += 1
            if reject.kind is RejectKind.BAD_ROW:
                insort(self.bad_rows(reject.stream, reject.source), reject.row)

    def take(self) -> list[Reject]:
        """Return the rejects since the last call. The log keeps only their counts."""
        with self._turn:
            taken, self._rejects = self._rejects, []
        return taken

    def bad_rows(self, stream: str, source: str) -> array[int]:
        """Numbers of the bad rows of a part, ascending."""
        return self._bad_rows.setdefault((stream, source), array("q"))

    def assume_bad_rows(self, stream: str, source: str, rows: int, readable: int) -> None:
        """Assume bad rows among the first rows of a part, which are not read again: all but the
        readable ones. Which of them are bad does not affect the numbers of later rows."""
        with self._turn:
            self._bad_rows[stream, source] = array("q", range(1, rows - readable + 1))

    def know_bad_row(self, stream: str, source: str, row: int) -> None:
        """Record a bad row that an earlier run has reported."""
        with self._turn:
            insort(self.bad_rows(stream, source), row)

    def of(self, stream: str) -> StreamRejects:
        return StreamRejects(self, stream)

    def of_table(self, table: str) -> TableRejects:
        return TableRejects(self, table)

    def count(self, kind: RejectKind | None = None) -> int:
        return self._counts.total() if kind is None else self._counts[kind]

    def __iter__(self) -> Iterator[Reject]:
        return iter(self._rejects)

    def __len__(self) -> int:
        return self._counts.total()

    def table(self) -> pa.Table:
        return pa.Table.from_batches([rejects_batch(self._rejects)])


def rejects_batch(rejects: Sequence[Reject]) -> pa.RecordBatch:
    columns = {name: [getattr(each, name) for each in rejects] for name in REJECT_COLUMNS.names}
    columns["kind"] = [each.kind.value for each in rejects]
    return pa.RecordBatch.from_pydict(columns, schema=REJECT_COLUMNS)


@dataclass(frozen=True, slots=True)
class StreamRejects:
    """The reject log of one stream."""

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

    def set_aside(
        self,
        kind: RejectKind,
        source: str,
        readable: int,
        cells: Iterable[tuple[Field, Any]],
        column: str,
        reason: str,
    ) -> None:
        """Reject a row that could be read but cannot take part; `readable` is its number among such
        rows."""
        unreadable = self.log.bad_rows(self.stream, source)
        before = bisect_right(
            range(len(unreadable)), readable, key=lambda number: unreadable[number] - number
        )
        row = readable + before
        shown = (
            f"{json.dumps(field.name)}: {to_json(value, field.type)}" for field, value in cells
        )
        self.add(kind, source, row, column, reason, "{" + ", ".join(shown) + "}")

    def bad_row(self, source: str, row: int, column: str | None, reason: str, content: str) -> None:
        self.add(RejectKind.BAD_ROW, source, row, column, reason, content)


@dataclass(frozen=True, slots=True)
class RejectsOnceMore(StreamRejects):
    """Reject log of a source that is read again: bad rows up to a number, by part, have been
    reported before."""

    told: Mapping[str, int]

    def bad_row(self, source: str, row: int, column: str | None, reason: str, content: str) -> None:
        if row > self.told.get(source, 0):
            self.add(RejectKind.BAD_ROW, source, row, column, reason, content)
        else:
            self.log.know_bad_row(self.stream, source, row)


@dataclass(frozen=True, slots=True)
class TableRejects(StreamRejects):
    """Reject log of a lookup table."""

    def bad_row(self, source: str, row: int, column: str | None, reason: str, content: str) -> None:
        self.add(RejectKind.BAD_TABLE_ROW, source, row, column, reason, content)
