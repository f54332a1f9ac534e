"""JSON lines one by one: what each value may be, and why a line is rejected.

Numbers keep the text they are written with, so that they are read by the same rules as a cell of
a CSV file: exactly for DECIMAL, and never rounded to an INT.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.plain_values import to_arrow
from penstock.model.schema import Schema
from penstock.model.types import Kind, Type
from penstock.sources.fitting.cells import parse_cell, why_bad
from penstock.sources.fitting.columns import Converted, whole_rows
from penstock.sources.fitting.text import parse_column
from penstock.sources.reasons import is_not, quoted, row_as_json
from penstock.sources.rejects import StreamRejects

SPACES = b" \t\r\n"


class _Number(str):
    """A JSON number, as it is written."""

    __slots__ = ()


_BAD: Any = object()  # what is not of its type
_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


class _BadLineError(Exception):
    """A line that is not a JSON object, with the reason."""


def read_lines(
    block: bytes, schema: Schema, source: str, rows_before: int, rejects: StreamRejects
) -> tuple[pa.RecordBatch, int]:
    """The rows of the lines that fit, and how many lines there are apart from blank ones."""
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

    columns = [_column([each.get(field.name) for each in objects], field.type) for field in schema]
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


def _column(values: list[Any], sql_type: Type) -> Converted:
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
    """A plain value of a JSON array or object, and of what is in it."""
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
    """The keys of JSON are texts, whatever they stand for."""
    read = parse_cell(text, sql_type) if _is_whole(text) else None
    return _BAD if read is None else read


def _may_be(value: Any, sql_type: Type) -> bool:
    """Whether a JSON value is of the right sort for a column; its text may still be wrong."""
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
    """Not cut within a surrogate pair, which an escape such as \\ud83d can do."""
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
    """The line itself where it is JSON text, else the line as a JSON string."""
    text = line.decode(errors="replace")
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return row_as_json(text)
    return text
