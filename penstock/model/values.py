"""Plain Python values (see `types.py`): to and from Arrow columns, as text and JSON, and tuples
that are handled one at a time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.model.durations import format_date, format_duration, format_timestamp
from penstock.model.types import Kind, Schema, Type, nested_arrow


def to_python(column: pa.Array | pa.ChunkedArray, sql_type: Type) -> list[Any]:
    """Convert an Arrow column to plain Python values."""
    arrow = sql_type.arrow
    if column.type != arrow:
        column = column.cast(arrow)
    inside = _inside(sql_type)
    if inside != arrow:
        column = column.cast(inside)
    values: list[Any] = column.to_pylist()
    if not sql_type.is_nested:
        return values
    plain = _plain(sql_type)
    return [plain(value) for value in values]


def to_arrow(values: Sequence[Any], sql_type: Type) -> pa.Array:
    """Convert plain Python values to an Arrow column: the inverse of `to_python`.

    >>> from penstock.model.types import BIGINT, struct_of
    >>> to_arrow([(7, None), None], struct_of([("a", BIGINT), ("b", BIGINT)])).to_pylist()
    [{'a': 7, 'b': None}, None]
    """
    if sql_type.is_nested:
        known = _for_arrow(sql_type)
        values = [known(value) for value in values]
    inside = _inside(sql_type)
    column = pa.array(values, inside)
    return column if inside == sql_type.arrow else column.cast(sql_type.arrow)


def _inside(sql_type: Type) -> pa.DataType:
    """The Arrow type in which times, at any depth, are integers."""
    match sql_type.kind:
        case Kind.TIMESTAMP | Kind.INTERVAL:
            return pa.int64()
        case Kind.DATE:
            return pa.int32()
        case Kind.ARRAY | Kind.STRUCT | Kind.MAP:
            return nested_arrow(sql_type, [_inside(part) for _, part in sql_type.parts])
        case _:
            return sql_type.arrow


def _plain(sql_type: Type) -> Callable[[Any], Any]:
    """Conversion from the nested values of Arrow to tuples."""
    inner = [_plain(part) for _, part in sql_type.parts]
    match sql_type.kind:
        case Kind.ARRAY:
            item = inner[0]
            return lambda value: None if value is None else tuple(map(item, value))
        case Kind.MAP:
            key, item = inner
            return lambda value: (
                None if value is None else tuple((key(k), item(v)) for k, v in value)
            )
        case Kind.STRUCT:
            fields = [(name, plain) for (name, _), plain in zip(sql_type.parts, inner, strict=True)]
            return lambda value: (
                None if value is None else tuple(plain(value[name]) for name, plain in fields)
            )
        case _:
            return lambda value: value


def _for_arrow(sql_type: Type) -> Callable[[Any], Any]:
    """Conversion from tuples to the nested values of Arrow."""
    inner = [_for_arrow(part) for _, part in sql_type.parts]
    match sql_type.kind:
        case Kind.ARRAY:
            item = inner[0]
            return lambda value: None if value is None else list(map(item, value))
        case Kind.MAP:
            key, item = inner
            return lambda value: None if value is None else [(key(k), item(v)) for k, v in value]
        case Kind.STRUCT:
            fields = [(name, given) for (name, _), given in zip(sql_type.parts, inner, strict=True)]
            return lambda value: (
                None
                if value is None
                else {name: known(v) for (name, known), v in zip(fields, value, strict=True)}
            )
        case _:
            return lambda value: value


# Values as text: the one place that defines how every type is written.


def to_text(value: Any, sql_type: Type) -> str:
    """Format a plain value (not None) for display and for files."""
    match sql_type.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.TIMESTAMP:
            return format_timestamp(value)
        case Kind.DATE:
            return format_date(value)
        case Kind.INTERVAL:
            return format_duration(value)
        case Kind.BINARY:
            return bytes(value).hex()
        case Kind.DECIMAL:
            return f"{value:f}"
        case Kind.DOUBLE:
            return repr(value)
        case Kind.ARRAY | Kind.STRUCT | Kind.MAP:
            return to_json(value, sql_type)
        case _:
            return str(value)


def to_json(value: Any, sql_type: Type) -> str:
    """Format a plain value as JSON: numbers as numbers, NULL as null, and values for which JSON
    has no number as text.
    """
    if value is None:
        return "null"
    match sql_type.kind:
        case Kind.INT | Kind.BIGINT | Kind.DECIMAL | Kind.BOOLEAN:
            return to_text(value, sql_type)
        case Kind.DOUBLE:
            if math.isfinite(value):
                return repr(value)
            return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
        case Kind.ARRAY:
            return f"[{', '.join(to_json(each, sql_type.item) for each in value)}]"
        case Kind.STRUCT:
            fields = zip(sql_type.parts, value, strict=True)
            return _object([(name, to_json(each, part)) for (name, part), each in fields])
        case Kind.MAP:
            (_, key_type), (_, item) = sql_type.parts
            return _object([(to_text(key, key_type), to_json(each, item)) for key, each in value])
        case _:
            return json.dumps(to_text(value, sql_type), ensure_ascii=False)


def _object(members: list[tuple[str, str]]) -> str:
    """
    >>> print(_object([("a", "1")]))
    {"a": 1}
    """
    shown = (f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in members)
    return "{" + ", ".join(shown) + "}"


def frequencies_json(pairs: Iterable[tuple[Any, int]], sql_type: Type) -> str:
    """Format values with their counts, as the results of top_k and heavy_hitters.

    >>> from penstock.model.types import STRING
    >>> frequencies_json([("a", 3), ("b", 1)], STRING)
    '[["a", 3], ["b", 1]]'
    """
    return "[" + ", ".join(f"[{to_json(v, sql_type)}, {count}]" for v, count in pairs) + "]"


# Single tuples, as plain values or as a record batch of one row.
#
# For one tuple, Python computes in less time than a call of Arrow takes; so a single tuple goes
# from operator to operator as plain values, and is converted to columns where an operator needs
# columns.

Values: TypeAlias = tuple[Any, ...]

_UNCONVERTED = (Kind.BOOLEAN, Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.STRING, Kind.BINARY)
_FIXED_WIDTH = {  # layout of a value in the buffer of a column
    Kind.INT: Struct("<i"),
    Kind.BIGINT: Struct("<q"),
    Kind.DOUBLE: Struct("<d"),
    Kind.DATE: Struct("<i"),
    Kind.TIMESTAMP: Struct("<q"),
    Kind.INTERVAL: Struct("<q"),
}


class RowForm:
    """Conversion between plain values and records for the columns of a schema, under its qualified
    names or under others.

    >>> from penstock.model.types import Field
    >>> from penstock.model.types import BIGINT, STRING
    >>> form = RowForm(Schema((Field("a", BIGINT), Field("b", STRING))))
    >>> form.record((7, None)).to_pylist()
    [{'a': 7, 'b': None}]
    >>> form.values(form.record((7, "x")))
    (7, 'x')
    """

    def __init__(self, schema: Schema, arrow: pa.Schema | None = None) -> None:
        self.names = schema.names
        self.types = tuple(each.type for each in schema)
        self._arrow = schema.arrow if arrow is None else arrow
        self._schema = schema
        self._arrow_types = self._arrow.types
        self._writers = [writer_of(each) for each in self.types]
        self._readers = [_reader(each) for each in self.types]
        self._renamed: dict[tuple[str, ...], RowForm] = {}

    def values(self, record: pa.RecordBatch) -> Values:
        """Plain values of the first row."""
        return tuple(
            [read(column) for read, column in zip(self._readers, record.columns, strict=True)]
        )

    def last_values(self, columns: Sequence[pa.Array]) -> Values:
        """Plain values of the last columns of one row, cast to the types of the schema where these
        differ.
        """
        first = len(self._readers) - len(columns)
        found = []
        for place, column in enumerate(columns, start=first):
            wanted = self._arrow_types[place]
            fitting = column if column.type == wanted else column.cast(wanted)
            found.append(self._readers[place](fitting))
        return tuple(found)

    def record(self, values: Values) -> pa.RecordBatch:
        columns = [write(value) for write, value in zip(self._writers, values, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)

    def records(self, several: Sequence[Values]) -> list[pa.RecordBatch]:
        """Convert several tuples to one record batch (or several, where one cannot hold as much
        text).
        """
        columns = [
            to_arrow(column, sql_type)
            for column, sql_type in zip(zip(*several, strict=True), self.types, strict=True)
        ]
        batches: list[pa.RecordBatch] = pa.Table.from_arrays(
            columns, schema=self._arrow
        ).to_batches()
        return batches

    def renamed(self, names: Mapping[str, str]) -> RowForm:
        """This form with other names for its columns."""
        wanted = tuple([names[name] for name in self._arrow.names])
        form = self._renamed.get(wanted)
        if form is None:
            fields = [
                field.with_name(name) for field, name in zip(self._arrow, wanted, strict=True)
            ]
            form = self._renamed[wanted] = RowForm(self._schema, pa.schema(fields))
        return form


def _reader(sql_type: Type) -> Callable[[pa.Array], Any]:
    """Function that reads the first value of a column."""
    if sql_type.kind in _UNCONVERTED:
        return lambda column: column[0].as_py()
    if sql_type.kind in _FIXED_WIDTH:  # times, which are integers here
        return lambda column: column[0].value
    return lambda column: to_python(column.slice(0, 1), sql_type)[0]


def writer_of(sql_type: Type) -> Callable[[Any], pa.Array]:
    """Function that makes a column of one value."""
    arrow, layout = sql_type.arrow, _FIXED_WIDTH.get(sql_type.kind)
    if layout is None:
        return lambda value: to_arrow((value,), sql_type)
    pack, made = layout.pack, pa.Array.from_buffers
    nothing = pa.nulls(1, arrow)

    def write(value: Any) -> pa.Array:
        if value is None:
            return nothing
        return made(arrow, 1, [None, pa.py_buffer(pack(value))])

    return write
