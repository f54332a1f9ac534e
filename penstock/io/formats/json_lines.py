"""JSON Lines: a few lines one by one, and files in blocks, at once by Arrow or line by line.

Single lines come from a socket or a growing file: Arrow needs longer to begin than Python needs to
end. Only values that Python and Arrow are sure to read alike are read that way."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.json

from penstock.io.formats.arrow import fit_column
from penstock.io.formats.data_file import DataFile
from penstock.io.formats.long_rows import LineCutter, LongRow
from penstock.io.formats.rows import BAD, fit_objects, plain_value
from penstock.io.formats.text_values import Converted, parse_cell, parse_column, whole_rows, why_bad
from penstock.io.sources.rejects import StreamRejects, is_not, quoted, row_as_json
from penstock.io.sources.source import Chunk, Restart
from penstock.model.types import Epoch, Field, Kind, Schema, Type
from penstock.model.values import RowForm, to_arrow

FEW = 16  # lines
_CLASSES: dict[Kind, tuple[type, ...]] = {
    Kind.BOOLEAN: (bool,),
    Kind.INT: (int,),
    Kind.BIGINT: (int,),
    Kind.DOUBLE: (float, int),
    Kind.STRING: (str,),
    Kind.DATE: (str,),
    Kind.TIMESTAMP: (str,),
}
_FAILURES = (pa.ArrowException, OverflowError, RecursionError, ValueError)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _whole(digits: str) -> int | float:
    """Parse an integer; minus zero of a DOUBLE is kept."""
    return int(digits) if digits != "-0" else -0.0


_DECODE = json.JSONDecoder(parse_int=_whole, parse_constant=_refuse).decode


class LinesAlone:
    """Reads lines that come alone, one after the other."""

    def __init__(self, schema: Schema) -> None:
        self._form = RowForm(schema)
        self._columns = [
            (each.name, each.type, _classes(each.type), _is_text(each.type)) for each in schema
        ]

    def read(self, line: bytes) -> Chunk | None:
        """Read the row; None if it must be read the exact way."""
        try:
            found = _DECODE(line.decode())
        except _FAILURES:
            return None
        if type(found) is not dict:
            return None
        values = []
        for name, sql_type, classes, is_text in self._columns:
            value = found.get(name)
            if value is not None:
                kind = type(value)
                if kind not in classes or (kind is float and not isfinite(value)):
                    return None
                if is_text and kind is str:
                    value = parse_cell(value, sql_type)
                elif sql_type.kind is not Kind.DOUBLE:
                    value = plain_value(value, sql_type)
                elif kind is int:
                    value = _as_double(value)
                if value is None or value is BAD:
                    return None
            values.append(value)
        return Chunk.single(tuple(values), self._form)


def read_few_lines(lines: bytes, schema: Schema) -> pa.RecordBatch | None:
    """Read the rows; None if one of them must be read the exact way."""
    try:
        objects = [_DECODE(line) for line in lines.decode().split("\n")]
        if any(type(each) is not dict for each in objects):
            return None
        columns = []
        for field in schema:
            column = _column_of_values([each.get(field.name) for each in objects], field.type)
            if column is None:
                return None
            columns.append(column)
    except _FAILURES:
        return None
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def _column_of_values(values: list[Any], sql_type: Type) -> pa.Array | None:
    classes = _classes(sql_type)
    for value in values:
        if value is not None and type(value) not in classes:
            return None
        if type(value) is float and not isfinite(value):
            return None
    if not _is_text(sql_type):
        return pa.array(values, sql_type.arrow)
    if sql_type.epoch is not None:
        counted, bad = fit_objects(values, sql_type)
        return None if np.count_nonzero(bad) else counted
    column, bad = parse_column(pa.array(values, pa.string()), sql_type)
    return None if np.count_nonzero(bad) else column


def _classes(sql_type: Type) -> tuple[type, ...]:
    known = _CLASSES.get(sql_type.kind, ())
    return known if sql_type.epoch is None else (*known, int)


def _as_double(value: int) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _is_text(sql_type: Type) -> bool:
    """Whether JSON writes a value as a text that stands for something else."""
    return sql_type.kind in (Kind.DATE, Kind.TIMESTAMP)


# JSON lines one by one: what each value may be, and why a line is rejected.
#
# Numbers keep the text they are written with, so that they are read by the same rules as a cell of
# a CSV file: exactly for DECIMAL, and never rounded to an INT.

SPACES = b" \t\r\n"


class _Number(str):
    """A JSON number that keeps the text it is written with."""

    __slots__ = ()


_BAD: Any = object()  # what is not of its type
_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


class _BadLineError(Exception):
    """A line that is not a JSON object, with the reason."""


def read_lines(
    block: bytes, schema: Schema, source: str, rows_before: int, rejects: StreamRejects
) -> tuple[pa.RecordBatch, int]:
    """Read the lines one by one. Returns the rows that fit, and the number of lines that are not
    blank."""
    lines = [line for each in block.split(b"\n") if (line := each.strip(SPACES))]
    objects: list[dict[str, Any]] = []
    numbers: list[int] = []  # of the rows in `objects`
    rejected: list[tuple[int, str | None, str]] = []
    for number, line in enumerate(lines, start=rows_before + 1):
        try:
            objects.append(_object(line))
            numbers.append(number)
        except _BadLineError as error:
            rejected.append((number, None, str(error)))

    def report(row: int, column: int) -> None:
        field = schema.fields[column]
        reason = _why_bad(objects[row][field.name], field.type)
        rejected.append((numbers[row], field.name, reason))

    columns = [
        _convert_column([each.get(field.name) for each in objects], field.type) for field in schema
    ]
    batch = whole_rows(schema, columns, report)
    for number, name, reason in sorted(rejected, key=lambda each: each[0]):
        content = _content(lines[number - rows_before - 1])
        rejects.bad_row(source, number, name, reason, content)
    return batch, len(lines)


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = _DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise _BadLineError(f"not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")
        raise _BadLineError(f"not JSON: {what} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise _BadLineError("nested too deeply") from error
    if not isinstance(value, dict):
        raise _BadLineError(f"{_named(value)} is not an object")
    return value


def _convert_column(values: list[Any], sql_type: Type) -> Converted:
    if sql_type.is_nested:
        found = [_nested(value, sql_type) for value in values]
        bad = np.fromiter((each is _BAD for each in found), np.bool_, len(found))
        return to_arrow([None if each is _BAD else each for each in found], sql_type), bad
    fits = [value is None or _may_be(value, sql_type) for value in values]
    wrong_kind = ~np.array(fits, dtype=np.bool_)
    kept = [value if fit else None for value, fit in zip(values, fits, strict=True)]
    if sql_type.kind is Kind.BOOLEAN:
        return pa.array(kept, pa.bool_()), wrong_kind
    column, bad = parse_column(pa.array(kept, pa.string()), sql_type)
    return column, bad | wrong_kind


def _nested(value: Any, sql_type: Type) -> Any:
    """Plain value of a JSON array or object, and of its parts."""
    if value is None:
        return None
    parts = [part for _, part in sql_type.parts]
    made: tuple[Any, ...]
    match sql_type.kind:
        case Kind.ARRAY if isinstance(value, list):
            made = tuple(_nested(each, parts[0]) for each in value)
        case Kind.STRUCT if isinstance(value, dict):
            made = tuple(_nested(value.get(name), part) for name, part in sql_type.parts)
        case Kind.MAP if isinstance(value, dict):
            keys = [_key(key, parts[0]) for key in value]
            items = [_nested(each, parts[1]) for each in value.values()]
            bad = any(each is _BAD for each in (*keys, *items))
            return _BAD if bad else tuple(zip(keys, items, strict=True))
        case Kind.BOOLEAN if isinstance(value, bool):
            return value
        case Kind.ARRAY | Kind.STRUCT | Kind.MAP | Kind.BOOLEAN:
            return _BAD
        case _:
            read = parse_cell(value, sql_type) if _may_be(value, sql_type) else None
            return _BAD if read is None else read
    return _BAD if any(each is _BAD for each in made) else made


def _key(text: str, sql_type: Type) -> Any:
    """Parse the key of a MAP, which is a text in JSON."""
    read = parse_cell(text, sql_type) if _is_whole(text) else None
    return _BAD if read is None else read


def _may_be(value: Any, sql_type: Type) -> bool:
    """Whether a JSON value is of the right kind for a column; its text may still be wrong."""
    kind = sql_type.kind
    if kind is Kind.BOOLEAN:
        return isinstance(value, bool)
    if isinstance(value, _Number):
        numeric = kind in (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL)
        return numeric or sql_type.epoch is not None
    if isinstance(value, str):
        return kind not in (Kind.INT, Kind.BIGINT, Kind.DOUBLE) and _is_whole(value)
    return False


def _is_whole(text: str) -> bool:
    """Whether a text is not cut within a surrogate pair, which an escape such as \\ud83d can do."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _why_bad(value: Any, sql_type: Type) -> str:
    if isinstance(value, str) and not _is_whole(value):
        return f"{quoted(value)} holds half a surrogate pair"
    if sql_type.is_nested:
        return is_not(_named(value), sql_type)
    if not _may_be(value, sql_type):
        if isinstance(value, _Number) and sql_type.kind in (Kind.TIMESTAMP, Kind.DATE):
            return why_bad(value, sql_type, _named(value))
        return is_not(_named(value), sql_type)
    return why_bad(value, sql_type, _named(value) if isinstance(value, _Number) else None)


def _named(value: Any) -> str:
    match value:
        case _Number():
            return f"the number {quoted(value)[1:-1]}"
        case str():
            return f"the string {quoted(value)}"
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return json.dumps(value)


def _content(line: bytes) -> str:
    """Content of a line for a reject: the line itself where it is JSON, else as a JSON string."""
    text = line.decode(errors="replace")
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return row_as_json(text)
    return text


# JSON Lines files, in blocks cut at line ends: a block at once by Arrow, or line by line.
#
# A block goes line by line as soon as Arrow stumbles or might see it differently than
# reading line by line does, so both give the same rows, and only the latter finds the rejects.

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
    """Yield batches, each with the restart behind it. An incomplete last line of a `growing` file
    is left."""
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
    """Yield the file, from an offset on, in pieces of whole lines, and lines that are too long."""
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
    """Read a block. Returns the rows that fit, and the number of lines that are not blank."""
    read = read_few_lines if lines.count(b"\n") < FEW else read_at_once
    batch = read(lines, schema)
    if batch is None:
        return read_lines(lines, schema, source, rows_before, rejects)
    return batch, batch.num_rows


def read_at_once(lines: bytes, schema: Schema) -> pa.RecordBatch | None:
    """Read a block by Arrow; None if it must be read line by line."""
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
        columns = [_column_of_table(table, field) for field in schema]
    except pa.ArrowInvalid:
        return None
    if table.num_rows != rows or any(column is None for column in columns):
        return None
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def _as_arrow_reads(field: Field) -> bool:
    """Whether nested types have no parts that Arrow would read differently, or not at all."""
    pending = [field.type] if field.type.is_nested else []
    while pending:
        each = pending.pop()
        if each.kind in (*_AS_TEXT, Kind.DECIMAL, Kind.MAP):
            return False
        pending += [part for _, part in each.parts]
    return True


def _one_object_per_line(lines: bytes) -> int | None:
    """Count the lines, if each begins and ends like an object; None otherwise.

    Together with Arrow's count this is enough: inside an object, no `}` is followed by `{` without
    a comma. It also keeps a line `null` from Arrow, which crashes on it."""
    ends = lines.count(b"\n")
    if lines[:1] != b"{" or lines[-1:] != b"}" or lines.count(b"}\n{") != ends:
        return None
    return ends + 1


def _is_odd(lines: bytes) -> bool:
    """Whether Arrow would accept bytes that are not UTF-8 or not a constant of (Python's) JSON."""
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


def _column_of_table(table: pa.Table, field: Field) -> pa.Array | None:
    column = table.column(field.name).combine_chunks()
    if field.type.epoch is not None:
        column, bad = fit_column(column, field.type)
        return None if bad.any() else column
    if field.type.kind in _AS_TEXT:
        column, bad = parse_column(column, field.type)
        return None if bad.any() else column
    return column.cast(field.type.arrow)
