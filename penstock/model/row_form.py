"""How a tuple that comes alone is written: as plain values, or as a record batch of one row.

For one tuple, Python computes in less time than it takes to ask Arrow for it; so a tuple alone goes
from operator to operator as plain values, and columns are made of it where somebody wants columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.model.plain_values import to_arrow, to_python
from penstock.model.schema import Schema
from penstock.model.types import Kind, Type

Values: TypeAlias = tuple[Any, ...]

_AS_THEY_ARE = (Kind.BOOLEAN, Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.STRING, Kind.BINARY)
_FIXED_WIDTH = {  # how values lie in the buffer of a column
    Kind.INT: Struct("<i"),
    Kind.BIGINT: Struct("<q"),
    Kind.DOUBLE: Struct("<d"),
    Kind.DATE: Struct("<i"),
    Kind.TIMESTAMP: Struct("<q"),
    Kind.INTERVAL: Struct("<q"),
}


class RowForm:
    """The columns of a schema, under its qualified names or under others.

    >>> from penstock.model.schema import Field
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
        """Of the first row."""
        return tuple(
            [read(column) for read, column in zip(self._readers, record.columns, strict=True)]
        )

    def last_values(self, columns: Sequence[pa.Array]) -> Values:
        """What some columns of one row hold, which are the last ones or become so by a cast."""
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
        """Several tuples as one record batch (or some, where one cannot hold as much text)."""
        columns = [
            to_arrow(column, sql_type)
            for column, sql_type in zip(zip(*several, strict=True), self.types, strict=True)
        ]
        batches: list[pa.RecordBatch] = pa.Table.from_arrays(
            columns, schema=self._arrow
        ).to_batches()
        return batches

    def renamed(self, names: Mapping[str, str]) -> RowForm:
        """Under other names for columns."""
        wanted = tuple([names[name] for name in self._arrow.names])
        form = self._renamed.get(wanted)
        if form is None:
            fields = [
                field.with_name(name) for field, name in zip(self._arrow, wanted, strict=True)
            ]
            form = self._renamed[wanted] = RowForm(self._schema, pa.schema(fields))
        return form


def _reader(sql_type: Type) -> Callable[[pa.Array], Any]:
    """What finds the first value of a column."""
    if sql_type.kind in _AS_THEY_ARE:
        return lambda column: column[0].as_py()
    if sql_type.kind in _FIXED_WIDTH:  # times, which are integers here
        return lambda column: column[0].value
    return lambda column: to_python(column.slice(0, 1), sql_type)[0]


def writer_of(sql_type: Type) -> Callable[[Any], pa.Array]:
    """What makes a column of one value."""
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
