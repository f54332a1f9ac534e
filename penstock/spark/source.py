"""A Spark DataFrame as the source of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import EngineError, SourceError
from penstock.model.schema import Schema
from penstock.sources.arrow_columns import check_columns, fit_batches
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk
from penstock.spark.types import from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class DataFrameSource:
    frame: DataFrame

    def describe(self) -> str:
        return f"SPARK ({'streaming' if self.frame.isStreaming else 'batch'} DataFrame)"

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        """For the other engines: what is there, if it ends."""
        if self.frame.isStreaming:
            raise EngineError(
                "a streaming DataFrame can be read by the spark engine only",
                hint="connect(spark), or --engine spark",
            )
        table = self.frame.select(*schema.names).toArrow()
        for batch in fit_batches(table.to_batches(), schema, "", rejects):
            if batch.num_rows:
                yield Chunk(batch)


def dataframe_source(frame: Any, schema: Schema | None) -> tuple[DataFrameSource, Schema]:
    """A source for a DataFrame, and its schema: the given one, or the frame's own."""
    if not hasattr(frame, "isStreaming"):
        raise SourceError(f"a {type(frame).__name__} is not a table", expected="a Spark DataFrame")
    from pyspark.sql.pandas.types import to_arrow_schema

    if schema is None:
        return DataFrameSource(frame), from_spark(frame.schema)
    check_columns(to_arrow_schema(frame.schema), schema, "the DataFrame")
    return DataFrameSource(frame), schema
