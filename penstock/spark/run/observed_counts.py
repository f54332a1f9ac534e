"""Counts among the metrics that Spark observes: rows read, late, rejected and emitted, and
decisions about operators.

`lastProgress.observedMetrics` of a streaming query has them for every micro-batch, an `Observation`
for a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import EngineError
from penstock.spark.run.result_columns import COUNTED, FrameColumns

if TYPE_CHECKING:
    from pyspark.sql import Column

METRICS = "penstock"

ObservedBy: TypeAlias = str | Observation


class FrameWithCounts(NamedTuple):
    """Rows, with further rows among them that have only counts."""

    frame: DataFrame
    columns: FrameColumns

    def observed(self, metrics: ObservedBy) -> DataFrame:
        """Rows alone, while Spark sums up the counts."""
        counts, decisions = self.columns.counts, self.columns.decisions
        own = F.col(counts[0]).isNull()
        sums = [_sum(F.col(count), name) for count, name in zip(counts, COUNTED, strict=True)]
        sums.append(_sum(own.cast("bigint"), "rows"))
        if decisions is not None:
            lines = F.split(F.col(decisions), "\n")
            sums.append(F.flatten(F.collect_list(lines)).alias("decisions"))
        return _observed(self.frame, metrics, sums).where(own).drop(*self.columns.hidden)


def observed_plainly(rows: DataFrame, metrics: ObservedBy) -> DataFrame:
    """Observe a plan that is Catalyst's alone.  Nothing in it can be late or rejected; rows read
    are not counted, because then no filter could be pushed into the scan."""
    nothing = [F.lit(0).cast("bigint").alias(name) for name in ("late", "rejected")]
    return _observed(rows, metrics, [*nothing, F.count(F.lit(1)).alias("rows")])


def observed_while_read(
    frame: DataFrame, metrics: ObservedBy, fit: Column, given: Column
) -> DataFrame:
    """Observe the rows of a stream that progresses in a plan that is Catalyst's alone: those that
    are not `fit` are rejected, those that are `given` come out."""
    columns = [
        F.count(F.lit(1)).alias("read"),
        F.lit(0).cast("bigint").alias("late"),
        F.count_if(~fit).alias("rejected"),
        F.count_if(given).alias("rows"),
    ]
    return _observed(frame, metrics, columns)


def _observed(frame: DataFrame, metrics: ObservedBy, columns: list[Column]) -> DataFrame:
    if frame.isStreaming and not isinstance(metrics, str):
        raise EngineError(
            "an Observation is for a table, and this DataFrame is streaming",
            expected="a name for the metrics in the progress of the streaming query",
            hint=f'metrics="{METRICS}", then lastProgress.observedMetrics["{METRICS}"]',
        )
    return frame.observe(metrics, *columns)


def _sum(column: Column, name: str) -> Column:
    return F.coalesce(F.sum(column), F.lit(0)).alias(name)


def spark_schema(columns: FrameColumns) -> StructType:
    return from_arrow_schema(columns.arrow)


def free_name(frames: Iterable[DataFrame]) -> str:
    """A name for metrics that the DataFrames which a query reads have not used themselves."""
    used = {name for frame in frames for name in _names_in(frame._jdf.queryExecution().analyzed())}
    name, number = METRICS, 1
    while name in used:
        number += 1
        name = f"{METRICS}_{number}"
    return name


def _names_in(plan: Any) -> Iterator[str]:
    if plan.nodeName() == "CollectMetrics":
        yield plan.name()
    children = plan.children()
    for number in range(children.size()):
        yield from _names_in(children.apply(number))
