"""JSON Lines files, in blocks cut at line ends: a block at once by Arrow, or line by line.

A block goes line by line as soon as Arrow stumbles or might see it differently than
`json_values.py` does, so both ways give the same rows, and only that one finds the rejects.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.json

from penstock.model.schema import Field, Schema
from penstock.model.types import Epoch, Kind
from penstock.sources.fitting.arrow_columns import fit_column
from penstock.sources.fitting.text import parse_column
from penstock.sources.formats.data_file import DataFile
from penstock.sources.formats.few_json_lines import FEW, read_few_lines
from penstock.sources.formats.json_values import SPACES, read_lines
from penstock.sources.formats.long_rows import LineCutter, LongRow
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Restart

BLOCK = 4 << 20
LONGEST_LINE = 64 << 20
_ARROW_BLOCK = 1 << 20
_FRACTION = 9  # digits of a count of seconds that are read at once
_AS_TEXT = (Kind.TIMESTAMP, Kind.DATE, Kind.BINARY)
_NOT_JSON = re.compile(rb"[:,\[]\s*(?:-?Inf|-NaN)\s*[,}\]]")


def read_json_lines(
    file: DataFile, schema: Schema, rejects: StreamRejects, block: int = BLOCK
) -> Iterator[pa.RecordBatch]:
    for batch, _ in read_json_blocks(file, schema, rejects, block=block):
        yield batch


def read_json_blocks(
    file: DataFile,
    schema: Schema,
    rejects: StreamRejects,
    begin: Restart | None = None,
    growing: bool = False,
    block: int = BLOCK,
) -> Iterator[tuple[pa.RecordBatch, Restart | None]]:
    """Batches, and where to begin again after each.  A last line that is not complete, because the
    file is still `growing`, is not read."""
    begin = begin or Restart(0, 0)
    rows_before, offset = begin.rows, begin.offset
    with file.reading("JSON Lines"):
        file.refuse_binary("JSON Lines")
        limit = file.row_limit or LONGEST_LINE
        for piece in _pieces(file, block, offset, limit):
            if isinstance(piece, LongRow):
                if growing and not piece.end:
                    return
                offset += piece.size + len(piece.end)
                rows_before += 1
                reason = piece.reason(limit)
                rejects.bad_row(file.name, rows_before, None, reason, piece.content)
                continue
            if growing and not piece.endswith(b"\n") and not is_json(piece):
                return
            begins = not offset
            offset += len(piece)
            if begins:
                piece = piece.removeprefix(codecs.BOM_UTF8)
            lines = piece.strip(SPACES).replace(b"\r\n", b"\n")
            if not lines:
                continue
            batch, rows = read_block(lines, schema, file.name, rows_before, rejects)
            rows_before += rows
            yield batch, None if file.is_compressed else Restart(offset, rows_before)


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _pieces(
    file: DataFile, block: int, offset: int = 0, limit: int = LONGEST_LINE
) -> Iterator[bytes | LongRow]:
    """The file, from an offset on, in pieces of whole lines, and lines that are too long."""
    lines = LineCutter(limit)
    with file.opened() as stream:
        if offset:
            stream.seek(offset)
        while data := stream.read(block):
            yield from lines.cut(data)
    yield from lines.rest()


def read_block(
    lines: bytes,
    schema: Schema,
    source: str,
    rows_before: int,
    rejects: StreamRejects,
) -> tuple[pa.RecordBatch, int]:
    """The rows of some lines that fit, and how many lines there are apart from blank ones."""
    read = read_few_lines if lines.count(b"\n") < FEW else read_at_once
    batch = read(lines, schema)
    if batch is None:
        return read_lines(lines, schema, source, rows_before, rejects)
    return batch, batch.num_rows


def read_at_once(lines: bytes, schema: Schema) -> pa.RecordBatch | None:
    """The rows of the lines, or None if they need a closer look."""
    rows = _one_object_per_line(lines)
    if rows is None or _is_odd(lines) or not all(map(_as_arrow_reads, schema)):
        return None
    try:
        table = pa.json.read_json(
            pa.BufferReader(lines),
            read_options=pa.json.ReadOptions(block_size=_ARROW_BLOCK),
            parse_options=pa.json.ParseOptions(
                explicit_schema=pa.schema([(field.name, _found_as(field)) for field in schema]),
                unexpected_field_behavior="ignore",
            ),
        )
        columns = [_column(table, field) for field in schema]
    except pa.ArrowInvalid:
        return None
    if table.num_rows != rows or any(column is None for column in columns):
        return None
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def _as_arrow_reads(field: Field) -> bool:
    """Whether what is nested has no parts that Arrow would read in another way, or not at all."""
    pending = [field.type] if field.type.is_nested else []
    while pending:
        each = pending.pop()
        if each.kind in (*_AS_TEXT, Kind.DECIMAL, Kind.MAP):
            return False
        pending += [part for _, part in each.parts]
    return True


def _one_object_per_line(lines: bytes) -> int | None:
    """How many lines there are, if each begins and ends like an object.

    Together with Arrow's count this is enough: inside an object, no `}` is followed by `{` without
    a comma.  It also keeps a line `null` from Arrow, which crashes on it.
    """
    ends = lines.count(b"\n")
    if lines[:1] != b"{" or lines[-1:] != b"}" or lines.count(b"}\n{") != ends:
        return None
    return ends + 1


def _is_odd(lines: bytes) -> bool:
    """Whether Arrow would take what is not UTF-8 or not a constant of (Python's) JSON."""
    try:
        lines.decode()
    except UnicodeDecodeError:
        return True
    return (b"Inf" in lines or b"-NaN" in lines) and _NOT_JSON.search(lines) is not None


def _found_as(field: Field) -> pa.DataType:
    if field.type.epoch is Epoch.SECONDS:  # which often have fractions
        return pa.decimal256(38, _FRACTION)
    if field.type.epoch is not None:
        return pa.int64()
    if field.type.kind in _AS_TEXT:
        return pa.string()
    if field.type.kind is Kind.DECIMAL:
        # Arrow neither checks the precision nor, in 128 bits, that the number can be shifted to
        # the scale; 38 digits shifted by 38 more fit into 256 bits.
        return pa.decimal256(38, field.type.scale)
    return field.type.arrow


def _column(table: pa.Table, field: Field) -> pa.Array | None:
    column = table.column(field.name).combine_chunks()
    if field.type.epoch is not None:
        column, bad = fit_column(column, field.type)
        return None if bad.any() else column
    if field.type.kind in _AS_TEXT:
        column, bad = parse_column(column, field.type)
        return None if bad.any() else column
    return column.cast(field.type.arrow)
