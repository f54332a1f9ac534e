"""CSV files with a header, in blocks: every column as text first, then as its declared type; bytes
that are not UTF-8 are marked, so that Arrow can read on."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from penstock.errors import SourceError
from penstock.io.formats.data_file import DataFile
from penstock.io.formats.long_rows import CsvRowLimit
from penstock.io.formats.text_values import (
    Converted,
    find_columns,
    parse_column,
    whole_rows,
    why_bad,
)
from penstock.io.sources.rejects import StreamRejects, quoted, row_as_json
from penstock.model.types import Kind, Schema, Type

# Two noncharacters in a row: Unicode keeps them out of text that is passed on.
MARK = "\ufdd0\ufdef"
_ESCAPED = re.compile("[\udc80-\udcff]+")


class Utf8Marker:
    """Transforms a stream of bytes: bytes that are not UTF-8 are marked; `damaged` tells whether
    there were any.

    >>> marker = Utf8Marker()
    >>> marker(b"gr\\xc3") + marker(b"\\xbcn") + marker(b"")
    b'gr\\xc3\\xbcn'
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.damaged = False
        self.read = 0  # bytes

    def __call__(self, piece: bytes) -> bytes:
        """Transform the next piece; the empty one is the end, and returns the bytes held back."""
        self.read += len(piece)
        text = self._decoder.decode(bytes(piece), final=not len(piece))
        try:
            return text.encode()
        except UnicodeEncodeError:
            self.damaged = True
            return _ESCAPED.sub(MARK, text).encode()

    def over(self, stream: pa.NativeFile) -> pa.NativeFile:
        return pa.TransformInputStream(stream, self)


def unmarked(text: str) -> str:
    """Replace marks by the usual replacement character."""
    return text.replace(MARK, "\ufffd")


# CSV files with a header, in blocks: every column as text first, then as its declared type.
#
# Rows that do not have as many cells as the header are rejected by Arrow's parser, which says where
# they stood; the numbers of the other rows follow from that.

BLOCK = 4 << 20  # bytes; no row may be longer, unless ROW LIMIT says so
_OTHER_SEPARATORS = (";", "\t", "|")
_LARGEST = 64 << 20
_SMALLEST = 64 << 10
_LINE_END = 2  # bytes
_MARKED = 4  # times as long as it was a row may become when all of it is marked as no UTF-8
_PER_COLUMN = 4 << 10  # bytes of a block; looking at a column once costs as much as some 100 cells

_CLOSED = r'(?:"[^"]*+(?:""[^"]*+)*+"[^,]*+|[^",][^,]*+|,)*+'  # cells, and commas between them
_OPEN_QUOTE = re.compile(_CLOSED + r'"[^"]*+(?:""[^"]*+)*+\Z')
_CELL = rb'"[^"]*+(?:""[^"]*+)*+"[^,\r\n]*+|[^",\r\n][^,\r\n]*+|,'
_WHOLE_ROWS = re.compile(rb"(?:(?:" + _CELL + rb")*+(?:\r\n|\n|\r(?!\Z)))*+")
_QUOTE, _COMMA, _LF, _CR = b'",\n\r'


def refuse_nested(schema: Schema, name: str) -> None:
    for each in schema:
        if each.type.is_nested:
            raise SourceError(
                f"{name}: a CSV file has no place for {each.name}, {each.type.a}",
                hint="FORMAT JSON or FORMAT PARQUET",
            )


def read_delimited(
    file: DataFile, schema: Schema, rejects: StreamRejects, block: int | None = None
) -> Iterator[pa.RecordBatch]:
    with file.reading("CSV"):
        file.refuse_binary("CSV")
        refuse_nested(schema, file.name)
        header, has_rows = _header(file, file.row_limit or _LARGEST)
        if header is None:
            return
        _refuse_separator(header, schema, file.name)
        positions = find_columns(schema, header, file.name)
        if not has_rows:
            return
        names = [header[position] for position in positions]
        block = block or _block_for(len(header))
        limit = file.row_limit or block
        long_rows = CsvRowLimit(limit, len(header))
        marker, counter = Utf8Marker(), _RowCounter(file.name, long_rows)
        block = max(block, limit + _LINE_END)
        if not file.is_compressed:  # a small file needs no large buffer
            block = min(block, max(_SMALLEST, file.size * _MARKED))
        with file.opened() as stream:
            for batch in _open(stream, names, marker, counter, block):
                numbers = counter.take(batch.num_rows)
                rows = _convert(batch, names, schema, marker, counter, numbers)
                counter.flush(rejects)
                file.meter.parsed(block, marker.read)
                yield rows
        counter.flush(rejects, everything=True)


def _block_for(columns: int) -> int:
    return max(BLOCK, min(columns * _PER_COLUMN, _LARGEST))


def end_of_rows(file: DataFile, begin: int = 0) -> int | None:
    """Position behind the last complete row of a file, whose line has ended outside of quotes.

    Rows end at `begin`, too. None: the rest is too long to be the beginning of a row."""
    end, rest = begin, b""
    with file.reading("CSV"), file.path.open("rb") as stream:
        longest = file.row_limit or _block_for(stream.readline(_LARGEST).count(b",") + 1)
        stream.seek(begin)
        while piece := stream.read(BLOCK):
            rest += piece
            mark = len(codecs.BOM_UTF8) if not end and rest.startswith(codecs.BOM_UTF8) else 0
            cut = _end_of_rows(rest[mark:])
            if cut:
                end, rest = end + mark + cut, rest[mark + cut :]
            if len(rest) > longest:
                return None
    return end


def _end_of_rows(text: bytes) -> int:
    """
    >>> _end_of_rows(b'a,"b\\n'), _end_of_rows(b'1,2\\n3,4'), _end_of_rows(b'1,2\\r')
    (0, 4, 0)
    """
    cells = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero((cells == _LF) | (cells == _CR))
    if text.endswith(b"\r"):  # a line feed may follow
        ends = ends[:-1]
    quotes = np.flatnonzero(cells == _QUOTE)
    if len(quotes):
        opening = quotes[::2]
        if not np.isin(cells[opening[opening > 0] - 1], (_COMMA, _LF, _CR, _QUOTE)).all():
            found = _WHOLE_ROWS.match(text)  # a quote in the middle of a cell is a character
            assert found is not None
            return found.end()
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return int(ends[-1]) + 1 if len(ends) else 0


def _header(file: DataFile, limit: int) -> tuple[list[str] | None, bool]:
    """Read the names of the columns, None if there are none, and whether a row follows."""
    with file.opened() as stream:
        return _read_header(file, stream, limit)


def _read_header(
    file: DataFile, stream: pa.NativeFile, limit: int
) -> tuple[list[str] | None, bool]:
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
    with text:
        try:
            lines = _header_lines(file, text, limit)
            names = next((row for row in csv.reader(lines) if row), None)
        except csv.Error as error:
            raise SourceError(
                f"{file.name} has no CSV header: {error}", expected="the names of the columns"
            ) from error
        pieces = iter(lambda: text.read(_SMALLEST), "")
        return names, any(piece.strip("\r\n") for piece in pieces)


def _header_lines(file: DataFile, text: io.TextIOWrapper, limit: int) -> Iterator[str]:
    while line := text.readline(limit + 1):
        if len(line) > limit:
            raise SourceError(
                f"{file.name} has no CSV header: its first row has more than {limit:,} bytes",
                expected="the names of the columns",
            )
        yield line


def _refuse_separator(header: list[str], schema: Schema, name: str) -> None:
    """Refuse a file whose only column holds the names of several, with another separator."""
    wanted = {each.name.casefold() for each in schema}
    for separator in _OTHER_SEPARATORS if len(header) == 1 else ():
        found = {each.strip(' "').casefold() for each in header[0].split(separator)}
        if len(found) > 1 and found & wanted and header[0].strip().casefold() not in wanted:
            raise SourceError(
                f"{name}: cells seem to be separated by {separator!r}: {header[0]}",
                expected="commas between cells",
                hint="write the file with commas; or, in Python, db.stream(…,"
                f" pandas.read_csv(…, sep={separator!r}))",
            )


@dataclass(slots=True)
class _RowCounter:
    """Row numbers in the file of the rows of a batch, and the rejects so far, sorted by row."""

    name: str
    long_rows: CsvRowLimit
    next_row: int = 1
    malformed: list[int] = field(default_factory=list)
    rejected: list[tuple[int, str | None, str, str]] = field(default_factory=list)

    def skip(self, row: pa.csv.InvalidRow) -> str:
        number = row.number - 1  # Arrow counts the header, but no blank lines
        long = self.long_rows.of(row.text)
        if long is not None:
            self.malformed.append(number)
            reason = long.reason(self.long_rows.limit)
            self.rejected.append((number, None, reason, long.content))
            return "skip"
        reason = f"{row.actual_columns} cells instead of {row.expected_columns}"
        if _OPEN_QUOTE.match(row.text):
            reason += ', because a quote (") is not closed: the row takes the rest of the file'
        self.malformed.append(number)
        self.rejected.append((number, None, reason, _cells_as_json(unmarked(row.text))))
        return "skip"

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """Numbers of the next `count` rows of the right length."""
        numbers = np.arange(self.next_row, self.next_row + count + len(self.malformed))
        if self.malformed:
            numbers = numbers[~np.isin(numbers, self.malformed)][:count]
        if count:
            self.next_row = int(numbers[-1]) + 1
        self.malformed = [number for number in self.malformed if number >= self.next_row]
        return numbers

    def flush(self, rejects: StreamRejects, everything: bool = False) -> None:
        """Report the rejects up to the last row taken; Arrow may have parsed further."""
        ahead = []
        for reject in sorted(self.rejected, key=lambda each: each[0]):
            if everything or reject[0] < self.next_row:
                rejects.bad_row(self.name, *reject)
            else:
                ahead.append(reject)
        self.rejected = ahead


def _open(
    stream: pa.NativeFile, names: list[str], marker: Utf8Marker, counter: _RowCounter, block: int
) -> pa.csv.CSVStreamingReader:
    return pa.csv.open_csv(
        counter.long_rows.over(marker.over(stream)),
        read_options=pa.csv.ReadOptions(
            use_threads=False,  # or else Arrow does not know the numbers of malformed rows
            block_size=block,
        ),
        parse_options=pa.csv.ParseOptions(
            newlines_in_values=True, invalid_row_handler=counter.skip
        ),
        convert_options=pa.csv.ConvertOptions(
            include_columns=list(dict.fromkeys(names)),
            column_types=dict.fromkeys(names, pa.string()),
            check_utf8=False,  # the marker has done it
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _convert(
    batch: pa.RecordBatch,
    names: list[str],
    schema: Schema,
    marker: Utf8Marker,
    counter: _RowCounter,
    numbers: npt.NDArray[np.int64],
) -> pa.RecordBatch:
    texts = [batch.column(name) for name in names]
    columns = [
        _column(text, each.type, marker.damaged) for text, each in zip(texts, schema, strict=True)
    ]

    def report(row: int, column: int) -> None:
        cell = texts[column][row].as_py()
        each = schema.fields[column]
        if MARK in cell:
            reason = f"{quoted(unmarked(cell))} is not UTF-8"
        else:
            reason = why_bad(cell, each.type)
        content = {name: text[row].as_py() for name, text in zip(names, texts, strict=True)}
        counter.rejected.append(
            (int(numbers[row]), each.name, reason, unmarked(row_as_json(content)))
        )

    return whole_rows(schema, columns, report)


def _column(texts: pa.StringArray, sql_type: Type, damaged: bool) -> Converted:
    if sql_type.kind is not Kind.STRING:
        # "" between quotes is a STRING; for the other types it can only mean that there is none.
        empty = pc.equal(texts, "")
        if pc.any(empty).as_py():
            texts = pc.if_else(empty, pa.scalar(None, pa.string()), texts)
    column, bad = parse_column(texts, sql_type)
    if damaged:
        marked = pc.fill_null(pc.match_substring(texts, MARK), False)
        bad = bad | marked.to_numpy(zero_copy_only=False)
    return column, bad


def _cells_as_json(line: str) -> str:
    try:
        return row_as_json(next(csv.reader(io.StringIO(line, newline="")), []))
    except csv.Error:
        return row_as_json(line)
