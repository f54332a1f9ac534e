"""What users give to a database, as it knows it: data, schemas, types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard

import pyarrow as pa

from penstock.api.progress_clause import ProgressOptions
from penstock.errors import BindError
from penstock.language.binding.scalars.literals import sql_type
from penstock.language.parse import parse_columns, pointing_into
from penstock.model.schema import Field, Schema
from penstock.model.types import Kind, Type, from_arrow
from penstock.sources.memory import memory_source
from penstock.sources.source import Source

SchemaLike: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]] | pa.Schema | str


def source_of(
    data: object, schema: Schema | None, replayable: bool | None = None
) -> tuple[Source, Schema]:
    if is_spark(data):
        if replayable is not None:
            raise BindError(
                "Spark knows what of a DataFrame can be read again",
                hint="leave replayable out: it is said of functions that make rows",
            )
        from penstock.spark.sources.dataframe import dataframe_source

        return dataframe_source(data, schema)
    return memory_source(data, schema, replayable)


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
            fields = [Field(c.name.text, sql_type(c.type, c.span)) for c in parse_columns(given)]
    else:
        pairs = given.items() if isinstance(given, Mapping) else given
        fields = [Field(name, type_of(text)) for name, text in pairs]
    names = [field.name.casefold() for field in fields]
    if not names or len(set(names)) < len(names):
        raise BindError("a schema has columns with different names", expected="a INT, b STRING")
    return Schema(tuple(fields))


def _from_arrow(field: pa.Field) -> Type:
    found = from_arrow(field.type)
    if found is None or found.kind is Kind.INTERVAL:
        raise BindError(f"column {field.name!r} has the Arrow type {field.type}", hint="cast it")
    return found


def type_of(text: str) -> Type:
    sql = f"x {text}"
    with pointing_into(sql):
        columns = parse_columns(sql)
        if len(columns) != 1:
            raise BindError(f"{text!r} is not one type", hint="INT")
        return sql_type(columns[0].type, columns[0].span)
