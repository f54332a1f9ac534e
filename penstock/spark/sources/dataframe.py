"""Spark DataFrames as sources of streams: the columns that Catalyst reads of them, and queries over
them that are to end when all has been read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import EngineError, SourceError
from penstock.io.formats.arrow import check_columns, fit_batches
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Chunk
from penstock.model.punctuation import Delay, ProgressPolicy
from penstock.model.types import Field, Kind, Schema
from penstock.plan.nodes.node import Scan
from penstock.plan.streams import StreamProgress
from penstock.spark.session.worker_errors import failure, is_of_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def columns_read(scan: Scan, frame: DataFrame) -> list[str]:
    """Columns of a DataFrame that a scan needs, by the names that they have there."""
    names = {name.lower() for name in scan.stream.input_schema.names}
    return [each for each in frame.columns if each.lower() in names]


def read(scan: Scan, frame: DataFrame) -> DataFrame:
    wanted = columns_read(scan, frame)
    return frame.drop(*(each for each in frame.columns if each not in wanted))


# The frames that Spark reads: a DataFrame of the user, or the portions of a feed.


@dataclass(frozen=True)
class Frame:
    """A DataFrame of a stream: its rows, or the portions of the `feed` in a directory, which name
    them.  The directory `stamps` has the last time that a tuple was given, if tuples get their
    times here."""

    frame: DataFrame
    feed: str | None = None
    stamps: str | None = None

    @property
    def fed(self) -> bool:
        return self.feed is not None

    @property
    def in_order(self) -> bool:
        """Whether rows can be late: a table has no order."""
        return self.fed or self.frame.isStreaming


@dataclass(frozen=True)
class Sources:
    """Frames and initial sub-sources of streams, by name."""

    frames: dict[str, list[Frame]]
    parts: dict[str, tuple[str, ...]]


# A Spark DataFrame as the source of a stream.

_WATERMARK = "spark.watermarkDelayMs"  # what withWatermark leaves with its column
_BYTES = 8  # of a value, if nothing else is known
_UNKNOWN = 1 << 60  # bytes that a DataFrame has if Spark knows nothing of it, about


@dataclass(frozen=True, slots=True)
class DataFrameSource:
    """A Spark DataFrame as the source of a stream or table."""

    frame: DataFrame

    def describe(self) -> str:
        return f"SPARK ({'streaming' if self.frame.isStreaming else 'batch'} DataFrame)"

    def always_fits(self, field: Field) -> bool:
        """Whether no value of a column can cause a rejected row, so that it need not be read."""
        from penstock.spark.catalyst.types import holds_as_declared

        types = {each.name: each.dataType for each in self.frame.schema}
        return field.name in types and holds_as_declared(types[field.name], field.type)

    def rows_expected(self) -> int | None:
        """Number of rows that Catalyst estimates, or None."""
        if self.frame.isStreaming:
            return None
        stats = self.frame._jdf.queryExecution().optimizedPlan().stats()
        if stats.rowCount().isDefined():
            return int(str(stats.rowCount().get()))
        size = int(str(stats.sizeInBytes()))
        return size // (_BYTES * len(self.frame.columns)) if size < _UNKNOWN else None

    def promised(self, columns: Schema) -> StreamProgress | None:
        """Watermark of a streaming DataFrame, as a progress policy."""
        if not self.frame.isStreaming:
            return None
        delays = {each.name: each.metadata.get(_WATERMARK) for each in self.frame.schema}
        for column in columns:
            delay = delays.get(column.name)
            if delay is not None and column.type.kind is Kind.TIMESTAMP:
                return StreamProgress(column.name, ProgressPolicy(Delay(int(delay) * 1000)))
        return None

    def parts(self) -> list[str]:
        return [""]

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        """Read a table for the other engines."""
        if self.frame.isStreaming:
            raise EngineError(
                "a streaming DataFrame can be read by the spark engine only",
                hint="connect(spark), or --engine spark",
            )
        from penstock.spark.catalyst.columns import quoted

        try:
            table = self.frame.select(*map(quoted, schema.names)).toArrow()
        except Exception as error:
            if not is_of_spark(error):
                raise
            raise SourceError(
                f"Spark cannot hand over the rows of a DataFrame: {failure(error).message}",
                hint="the spark engine, which leaves them where they are",
            ) from error
        for batch in fit_batches(table.to_batches(), schema, "", rejects):
            if batch.num_rows:
                yield Chunk(batch)


def dataframe_source(frame: Any, schema: Schema | None) -> tuple[DataFrameSource, Schema]:
    """A source for a DataFrame, and its schema: the given one, or the frame's own."""
    if not hasattr(frame, "isStreaming"):
        raise SourceError(f"a {type(frame).__name__} is not a table", expected="a Spark DataFrame")
    from penstock.spark.catalyst.types import from_spark

    if schema is None:
        return DataFrameSource(frame), from_spark(frame.schema)
    found = pa.schema([(each.name, _arrow_type(each.dataType)) for each in frame.schema])
    check_columns(found, schema, "the DataFrame")
    return DataFrameSource(frame), schema


def _arrow_type(spark_type: Any) -> pa.DataType:
    """Arrow type that a column arrives as, whether or not the stream accepts it."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(spark_type, timezone="UTC")
    except PySparkException:  # intervals of months, of which Arrow's are the nearest
        return pa.month_day_nano_interval()
