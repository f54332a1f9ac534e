"""What users give to a database, as it knows it: data, schemas, types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard

import pyarrow as pa

from penstock.api.progress_clause import ProgressOptions
from penstock.errors import BindError, ParseError, described, nearest, shortened
from penstock.language.binding.scalars.literals import TYPE_NAMES, column_type, sql_type
from penstock.language.parse import parse_columns, pointing_into
from penstock.language.syntax.names import meant_type
from penstock.model.duration import epoch_named
from penstock.model.schema import Field, Schema
from penstock.model.types import EPOCHS, STRING, Epoch, Kind, Type, from_arrow
from penstock.sources.memory import memory_source
from penstock.sources.source import Source

SchemaLike: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]] | pa.Schema | str


def source_of(
    data: object,
    schema: Schema | None,
    epoch: Mapping[str, str] | None = None,
    replayable: bool | None = None,
) -> tuple[Source, Schema]:
    """A source, and its columns: as given, else as the data suggests; `epoch` says what the numbers
    of some of them count."""
    if epoch and schema is None:
        source, found = source_of(data, None, None, replayable)
        return source, counted_by(epoch, found)
    if epoch and schema is not None:
        schema = counted_by(epoch, schema)
    if is_spark(data):
        if replayable is not None:
            raise BindError(
                "Spark knows what of a DataFrame can be read again",
                hint="leave replayable out: it is said of functions that make rows",
            )
        from penstock.spark.sources.dataframe import dataframe_source

        return dataframe_source(data, schema)
    return memory_source(data, schema, replayable)


def counted_by(given: Mapping[str, str] | None, schema: Schema) -> Schema:
    """The schema with times for the columns whose numbers count the time since 1970."""
    units = dict(given or {})
    fields = []
    for field in schema:
        word = units.pop(field.name, None)
        fields.append(field if word is None else Field(field.name, _counted(field, word)))
    if units:
        name = min(units)
        close = nearest(name, schema.names)
        raise BindError(
            f"epoch names a column {name!r}, which there is not",
            expected=f"one of {', '.join(schema.names)}",
            hint=close[0] if close else None,
        )
    return Schema(tuple(fields))


def _counted(field: Field, word: str) -> Type:
    unit = epoch_named(word) if isinstance(word, str) else None
    if unit is None:
        raise BindError(
            f"epoch of {field.name!r} is {word!r}",
            expected="seconds, milliseconds, microseconds or nanoseconds; days of a DATE",
        )
    if not (field.type.is_number or field.type.kind in EPOCHS or field.type == STRING):
        raise BindError(
            f"column {field.name!r} is {field.type.a}, and no number can stand for a time there"
        )
    kind = Kind.DATE if unit == Epoch.DAYS.value else Kind.TIMESTAMP
    if field.type.kind in EPOCHS:
        kind = field.type.kind
    return Type(kind, epoch=Epoch[unit])


def complete(data: object) -> object:
    """Data that every run can read anew."""
    if getattr(data, "isStreaming", False):
        raise BindError("a table is complete, and a streaming DataFrame goes on", hint="db.stream")
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    return list(data) if isinstance(data, Iterator) else data


def is_spark(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pyspark"


def is_stamped(progress: ProgressOptions | None) -> TypeGuard[ProgressOptions]:
    """Whether the progressing attribute is stamped rather than read."""
    return progress is not None and progress.clause.timestamps != "EXTERNAL"


def schema_of(given: SchemaLike) -> Schema:
    """`"a INT, ts TIMESTAMP"`, `{"a": "INT"}`, pairs, or an Arrow schema."""
    if isinstance(given, pa.Schema):
        fields = [Field(field.name, _from_arrow(field)) for field in given]
    elif isinstance(given, str):
        with pointing_into(given):
            columns = parse_columns(given)
            fields = [Field(c.name.text, column_type(c.type, c.span)) for c in columns]
    else:
        fields = [Field(name, type_of(text, name)) for name, text in _pairs(given)]
    names = [field.name.casefold() for field in fields]
    if not names or len(set(names)) < len(names):
        raise BindError("a schema has columns with different names", expected="a INT, b STRING")
    return Schema(tuple(fields))


def _pairs(given: object) -> list[tuple[str, object]]:
    """The names of columns, with what is said of their types."""
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if isinstance(pairs, Sequence) and not isinstance(pairs, bytes):
        pairs = [tuple(each) if isinstance(each, list | tuple) else each for each in pairs]
        if all(isinstance(each, tuple) and len(each) == 2 for each in pairs):
            for name, _ in pairs:
                if not isinstance(name, str) or not name:
                    raise BindError(
                        f"the name of a column is a text, and not {name!r}", hint="{'a': 'INT'}"
                    )
            return pairs
    raise BindError(
        f"a schema is {described(given)}",
        expected="a text, a dict of names and types, pairs of them, or an Arrow schema",
        hint='"a INT, ts TIMESTAMP"',
    )


def _from_arrow(field: pa.Field) -> Type:
    found = from_arrow(field.type)
    if found is None or found.kind is Kind.INTERVAL:
        raise BindError(f"column {field.name!r} has the Arrow type {field.type}", hint="cast it")
    return found


def type_of(text: object, column: str = "") -> Type:
    """The type that a text names; that of a column may have a length."""
    of = f" for column {column!r}" if column else ""
    if not isinstance(text, str):
        raise BindError(f"a type is {described(text)}{of}", expected="its name", hint='"INT"')
    sql = f"x {text}"
    with pointing_into(sql):
        try:
            columns = parse_columns(sql)
        except ParseError:
            known = meant_type(text)
            raise BindError(
                f"{shortened(text, 80)!r} is no type{of}", expected=TYPE_NAMES, hint=known
            ) from None
        if len(columns) != 1:
            raise BindError(f"{text!r} is not one type{of}", hint="INT")
        return sql_type(columns[0].type, columns[0].span, declared=bool(column))
