"""Python objects as rows: dicts, tuples and lists, fitted to a declared schema or with a schema
inferred from them.

Columns are read by Arrow at once where all values have its class. Arrow alone would be too obliging
(it makes 1 of 1.5 and text of bytes), hence the check of classes; cell by cell, everything with the
same meaning is accepted."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError, PlanError, SourceError
from penstock.io.formats.epochs import from_doubles, from_integers, moment_of
from penstock.io.formats.text_values import (
    Converted,
    all_good,
    exact_decimal,
    how_counted,
    parse_cell,
    parse_column,
    whole_rows,
    why_bad,
)
from penstock.io.sources.rejects import StreamRejects, does_not_fit, is_not, quoted, row_as_json
from penstock.io.sources.source import Chunk
from penstock.model.durations import DAY
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    EPOCHS,
    INT64_MAX,
    INT64_MIN,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Field,
    Kind,
    Schema,
    Type,
    array_of,
    as_decimal,
    decimal_type,
    from_arrow,
    struct_of,
)
from penstock.model.values import RowForm, Values, to_arrow

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EXACT_DOUBLE = 2**53
_FINER = ("ns", "ps", "fs", "as")  # units of NumPy
_INTS: dict[Kind, tuple[int, int]] = {
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (INT64_MIN, INT64_MAX),
}
_AT_ONCE: dict[Kind, set[type]] = {
    Kind.BOOLEAN: {bool},
    Kind.INT: {int},
    Kind.BIGINT: {int},
    Kind.DOUBLE: {float, int},
    Kind.STRING: {str},
    Kind.BINARY: {bytes},
    Kind.DATE: {datetime.date},
    Kind.TIMESTAMP: {datetime.datetime},
}
_FAILURES = (pa.ArrowException, OverflowError, UnicodeEncodeError, ValueError, TypeError)


def fit_objects(values: Sequence[object], sql_type: Type) -> Converted:
    """Convert a column. Returns it with a mask of the values that are not of the type, which are
    NULL in it."""
    classes = set(map(type, values)) - {type(None)}
    try:
        if classes <= _AT_ONCE.get(sql_type.kind, set()):
            return all_good(pa.array(values, sql_type.arrow))
        if classes == {str} and sql_type.kind in (Kind.DATE, Kind.TIMESTAMP):
            return parse_column(pa.array(values, pa.string()), sql_type)
        if classes == {int} and sql_type.epoch is not None:
            return all_good(from_integers(pa.array(values, pa.int64()), sql_type))
        if classes == {float} and sql_type.epoch is not None:
            return all_good(from_doubles(pa.array(values, pa.float64()), sql_type))
        if classes == {float} and sql_type.kind is Kind.DECIMAL:
            texts = [None if value is None else repr(value) for value in values]
            return parse_column(pa.array(texts, pa.string()), sql_type)
    except _FAILURES:
        pass  # a value that does not fit: find it below
    cells = [plain_value(value, sql_type) for value in values]
    bad = np.fromiter((cell is BAD for cell in cells), dtype=np.bool_, count=len(cells))
    return to_arrow([None if cell is BAD else cell for cell in cells], sql_type), bad


def fit_row(values: Sequence[object], types: Sequence[Type]) -> Values | None:
    """Convert one row to plain values, if all have the usual classes; None otherwise."""
    found = []
    for value, sql_type in zip(values, types, strict=True):
        if value is not None:
            if type(value) not in _AT_ONCE.get(sql_type.kind, ()):
                return None
            value = plain_value(value, sql_type)
            if value is BAD:
                return None
        found.append(value)
    return tuple(found)


def why_misfit(value: object, sql_type: Type) -> str:
    """Explain why a value is not of the type."""
    scalar = scalar_of(value)
    if isinstance(scalar, str) and sql_type.kind in (Kind.DATE, Kind.TIMESTAMP):
        return why_bad(scalar, sql_type)
    found = f"the {type(value).__name__} {quoted(scalar)}"
    exact = isinstance(scalar, int | Decimal) and not isinstance(scalar, bool)
    if isinstance(scalar, float) and sql_type.kind is Kind.DECIMAL:
        exact = isfinite(scalar)
    if (sql_type.is_number or sql_type.epoch is not None) and exact:
        return does_not_fit(found, sql_type)
    reason = is_not(found, sql_type)
    if sql_type.kind in EPOCHS and (exact or (isinstance(scalar, float) and isfinite(scalar))):
        reason += f": {how_counted(str(scalar), sql_type)}"
    return reason


BAD: Any = object()


def plain_value(value: object, sql_type: Type) -> Any:
    """Convert a value to the plain value of the type, or `BAD`."""
    value = scalar_of(value)
    if value is None:
        return None
    if sql_type.is_nested:
        return _nested(value, sql_type)
    reader = _READERS.get(sql_type.kind)
    return reader(value, sql_type) if reader else BAD


def _nested(value: object, sql_type: Type) -> Any:
    """Convert lists and tuples to ARRAYs, dicts to STRUCTs or MAPs, pairs to MAPs; all parts, or
    none."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    parts = [part for _, part in sql_type.parts]
    made: tuple[Any, ...]
    if sql_type.kind is Kind.MAP:
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list | tuple) or any(
            not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs
        ):
            return BAD
        made = tuple((plain_value(k, parts[0]), plain_value(v, parts[1])) for k, v in pairs)
        bad = any(k is BAD or k is None or v is BAD for k, v in made)
        return BAD if bad else made
    if sql_type.kind is Kind.ARRAY and isinstance(value, list | tuple):
        made = tuple(plain_value(each, parts[0]) for each in value)
    elif sql_type.kind is Kind.STRUCT and isinstance(value, Mapping):
        made = tuple(plain_value(value.get(name), part) for name, part in sql_type.parts)
    else:
        return BAD
    return BAD if any(each is BAD for each in made) else made


def scalar_of(value: object) -> object:
    """Convert NumPy's scalars to Python's, and the NaT of pandas and NumPy to None."""
    if isinstance(value, np.datetime64):
        return _moment(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.datetime) and value != value:  # only NaT differs from itself
        return None
    return value


def _moment(value: np.datetime64) -> object:
    """Convert a date or a naive datetime; digits finer than a microsecond are cut off."""
    unit = np.datetime_data(value.dtype)[0]
    if np.isnat(value) or unit == "D":
        return value.item()
    micros = value.astype("datetime64[us]")
    return micros.item() if unit in _FINER or micros == value else value


def _boolean(value: object, _: Type) -> Any:
    return value if isinstance(value, bool) else BAD


def _integer(value: object, sql_type: Type) -> Any:
    low, high = _INTS[sql_type.kind]
    whole = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    return value if whole else BAD


def _double(value: object, _: Type) -> Any:
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _EXACT_DOUBLE:
        return float(value)
    return BAD


def _fit_decimal(value: object, sql_type: Type) -> Any:
    if isinstance(value, float):  # as it is written, which is how JSON would have it
        exact = parse_cell(float.__repr__(value), sql_type)
        return BAD if exact is None else exact
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        return BAD
    exact = exact_decimal(Decimal(value), sql_type)
    return BAD if exact is None else exact


def _string(value: object, _: Type) -> Any:
    if not isinstance(value, str):
        return BAD
    try:
        value.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return BAD
    return value


def _binary(value: object, _: Type) -> Any:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else BAD


def _date(value: object, sql_type: Type) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.toordinal() - _EPOCH.toordinal()
    return _text_or_number(value, sql_type)


def _timestamp(value: object, sql_type: Type) -> Any:
    if isinstance(value, datetime.datetime):
        if value.utcoffset() is None:
            value = value.replace(tzinfo=datetime.UTC)
        return int((value - _EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return (value.toordinal() - _EPOCH.toordinal()) * DAY
    return _text_or_number(value, sql_type)


def _text_or_number(value: object, sql_type: Type) -> Any:
    """Convert a text, or a number if the column says what it counts."""
    if isinstance(value, float):
        value = float.__repr__(value)
    if isinstance(value, str):
        parsed = parse_cell(value, sql_type)
        return BAD if parsed is None else parsed
    if sql_type.epoch is None or not isinstance(value, int | Decimal) or isinstance(value, bool):
        return BAD
    moment = moment_of(value, sql_type)
    return BAD if moment is None else moment


_READERS: dict[Kind, Callable[[object, Type], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: _integer,
    Kind.BIGINT: _integer,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _fit_decimal,
    Kind.STRING: _string,
    Kind.BINARY: _binary,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}


# The schema of data that brings none: from its Arrow types, or from the first rows.

SAMPLE = 1000  # rows
# In this order: a bool is an int, and a datetime is a date.
_CLASSES: tuple[tuple[type, Type], ...] = (
    (bool, BOOLEAN),
    (int, BIGINT),
    (float, DOUBLE),
    (str, STRING),
    (bytes, BINARY),
    (bytearray, BINARY),
    (datetime.datetime, TIMESTAMP),
    (datetime.date, DATE),
)
# The types that one column may mix.
_MIXES = {
    frozenset({Kind.BIGINT, Kind.DOUBLE}): DOUBLE,
    frozenset({Kind.DATE, Kind.TIMESTAMP}): TIMESTAMP,
}


def schema_of_arrow(arrow: pa.Schema) -> Schema:
    return _schema([Field(each.name, _type_of_arrow(each)) for each in arrow])


def _type_of_arrow(field: pa.Field) -> Type:
    try:
        found = from_arrow(field.type)
    except PlanError:  # a decimal with a negative scale
        found = None
    if found is None or found == INTERVAL:
        raise SourceError(
            f"column {field.name}: a stream cannot carry {field.type}",
            expected="booleans, numbers, strings, binary, dates, timestamps, or lists, structs and"
            " maps of them",
            hint="give a schema without the column",
        )
    return found


def schema_of_rows(rows: Iterable[Mapping[str, object]]) -> Schema:
    """Infer columns, in the order in which they first appear."""
    types: dict[str, Type | None] = {}
    for row in rows:
        for name, value in row.items():
            if not isinstance(name, str):
                raise SourceError(f"the key {name!r} is not a string", expected="names of columns")
            types[name] = _joined(types.get(name), _type_of(value, name), name)
    return _schema([Field(name, _roomy(found)) for name, found in types.items()])


def _type_of(value: object, name: str) -> Type | None:
    """Infer the type of one value; None for a NULL, which has none."""
    value = scalar_of(value)
    if value is None:
        return None
    if isinstance(value, Decimal):
        return _type_of_decimal(value, name)
    for python_class, sql_type in _CLASSES:
        if isinstance(value, python_class):
            return sql_type
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        item: Type | None = None
        for each in value:
            item = _joined(item, _type_of(each, name), name)
        return array_of(item or NULL)
    if isinstance(value, Mapping) and value and all(isinstance(each, str) for each in value):
        return struct_of([(key, _type_of(each, name) or NULL) for key, each in value.items()])
    raise SourceError(
        f"column {name}: a stream cannot carry {type(value).__name__} values",
        expected="bool, int, float, str, bytes, date, datetime, Decimal, lists or dicts of them",
        hint="give a schema without the column",
    )


def _type_of_decimal(value: Decimal, name: str) -> Type:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):  # NaN or Infinity, which no DECIMAL holds: rejected later
        return decimal_type(1, 0)
    scale = max(0, -exponent)
    return _decimal_type(max(0, value.adjusted() + 1) if value else 0, scale, name)


def _decimal_type(whole: int, scale: int, name: str) -> Type:
    if whole + scale > 38:
        raise SourceError(
            f"column {name}: {whole} digits before and {scale} after the point are too many",
            expected="at most 38 digits",
        )
    return decimal_type(max(1, whole + scale), scale)


def _joined(left: Type | None, right: Type | None, name: str) -> Type | None:
    if left is None or right is None or left == right:
        return left or right
    kinds = frozenset({left.kind, right.kind})
    if kinds in _MIXES:
        return _MIXES[kinds]
    if Kind.NULL in kinds:  # of what an empty list has many
        return right if left.kind is Kind.NULL else left
    if kinds in ({Kind.ARRAY}, {Kind.STRUCT}):
        return _joined_parts(left, right, name)
    if kinds <= {Kind.DECIMAL, Kind.BIGINT}:
        left, right = as_decimal(left), as_decimal(right)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        return _decimal_type(whole, max(left.scale, right.scale), name)
    raise SourceError(
        f"column {name} mixes {left} and {right}",
        expected="values of one type",
        hint="give a schema; rows that do not fit it are then rejected",
    )


def _joined_parts(left: Type, right: Type, name: str) -> Type:
    """Merge the fields of two types, in the order in which they first appear."""
    parts: dict[str, Type] = dict(left.parts)
    for each, part in right.parts:
        parts[each] = _joined(parts.get(each), part, name) or NULL
    return Type(left.kind, parts=tuple(parts.items()))


def _roomy(found: Type | None) -> Type:
    """Widen DECIMALs for values after the sample: to 18 digits, or 38 where that is not enough."""
    if found is None:
        return STRING
    if found.kind is Kind.DECIMAL:
        return decimal_type(18 if found.precision <= 18 else 38, found.scale)
    if found.kind is Kind.NULL:
        return STRING
    if found.is_nested:
        return replace(found, parts=tuple((name, _roomy(part)) for name, part in found.parts))
    return found


def _schema(fields: list[Field]) -> Schema:
    if not fields:
        raise SourceError("the data has no columns", expected="at least one column")
    try:
        return Schema(tuple(fields))
    except PenstockError as error:
        raise SourceError(f"the data cannot be a stream: {error.message}") from error


# Rows of Python objects: dicts by the names of the columns, tuples and lists by position.

ROWS_A_BATCH = 4096  # rows


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows of a sequence of Python objects, in batches."""

    rows: Sequence[object]
    name: str

    def describe(self) -> str:
        return f"MEMORY ({self.name})"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        rest, chunks = iter(self.rows), RowChunks(schema, rejects)
        while rows := list(islice(rest, ROWS_A_BATCH)):
            chunk = chunks.of(rows)
            del rows  # frees them while the chunk is processed
            if chunk is not None:
                yield chunk


class RowChunks:
    """Makes chunks of rows, and counts the rows, including those that do not fit."""

    def __init__(self, schema: Schema, rejects: StreamRejects) -> None:
        self._schema = schema
        self._rejects = rejects
        self._form = RowForm(schema)
        self._before = 0

    def of(self, rows: list[object]) -> Chunk | None:
        """Make a chunk; None if none of the rows fits."""
        chunk = read_rows(rows, self._schema, self._before, self._rejects, self._form)
        self._before += len(rows)
        return chunk if chunk.num_rows else None


def read_rows(
    rows: list[object],
    schema: Schema,
    rows_before: int,
    rejects: StreamRejects,
    form: RowForm,
) -> Chunk:
    """Read rows as one chunk. A single row is stored in a `form`, which a reader makes once."""
    if len(rows) == 1:
        chunk = _single(rows[0], form)
        if chunk is not None:
            return chunk
    malformed, columns = _columns(rows, schema)

    def report(row: int, column: int) -> None:
        field = schema.fields[column]
        name, reason = None, malformed.get(row)
        if reason is None:
            name, reason = field.name, why_misfit(columns[column][row], field.type)
        rejects.bad_row("", rows_before + row + 1, name, reason, row_as_json(rows[row]))

    fitted = [
        fit_objects(column, field.type) for column, field in zip(columns, schema, strict=True)
    ]
    if malformed:  # bad in whichever column
        fitted[0][1][np.array(list(malformed))] = True
    return Chunk(whole_rows(schema, fitted, report))


def _single(row: object, form: RowForm) -> Chunk | None:
    """Convert a single row, if all its values are usual ones."""
    if type(row) is dict:
        given: Sequence[object] = [row.get(name) for name in form.names]
    elif type(row) in (tuple, list) and len(row) == len(form.names):  # type: ignore[arg-type]
        given = row  # type: ignore[assignment]
    else:
        return None
    values = fit_row(given, form.types)
    return None if values is None else Chunk.single(values, form)


def _columns(
    rows: Sequence[object], schema: Schema
) -> tuple[dict[int, str], Sequence[Sequence[object]]]:
    """Transpose rows to columns. Returns the reasons of those that are no rows, and the columns."""
    classes = set(map(type, rows))
    if classes == {dict}:
        return {}, [[row.get(name) for row in rows] for name in schema.names]  # type: ignore[attr-defined]
    malformed: dict[int, str] = {}
    cells: list[Sequence[object]] = []
    for position, row in enumerate(rows):
        reason = _why_malformed(row, schema)
        if reason is not None:
            malformed[position] = reason
            cells.append([None] * len(schema))
        elif isinstance(row, Mapping):
            cells.append([row.get(name) for name in schema.names])
        else:
            cells.append(row)  # type: ignore[arg-type]
    return malformed, list(zip(*cells, strict=True))


def _why_malformed(row: object, schema: Schema) -> str | None:
    if isinstance(row, Mapping):
        return None
    if not isinstance(row, tuple | list):
        return f"a row must be a dict, a tuple or a list, not {type(row).__name__}"
    if len(row) != len(schema):
        return f"{len(row)} values instead of {len(schema)}"
    return None
