"""VALUES: rows written out in the statement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import SourceError
from penstock.model.plain_values import to_arrow
from penstock.model.schema import Field, Schema
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk


@dataclass(frozen=True, slots=True)
class ValuesSource:
    """Rows of plain values (see `model.types`), already converted to the types of the stream."""

    rows: tuple[tuple[object, ...], ...]

    def describe(self) -> str:
        return f"VALUES ({len(self.rows)} row{'' if len(self.rows) == 1 else 's'})"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:  # noqa: ARG002
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(schema):
                raise SourceError(
                    f"row {number} of VALUES has {len(row)} value{'s' * (len(row) != 1)}",
                    expected=f"{len(schema)}, one for each of: {', '.join(schema.names)}",
                )
        columns = [
            _column([row[position] for row in self.rows], field)
            for position, field in enumerate(schema)
        ]
        if self.rows:
            yield Chunk(pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def _column(values: list[object], field: Field) -> pa.Array:
    try:
        return to_arrow(values, field.type)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise SourceError(
            f"VALUES: column {field.name}: {error}", expected=f"values of {field.type}"
        ) from error
