"""What Catalyst reads of a DataFrame: the columns that a query looks at, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.schema import Field
from penstock.optimizer.prune_columns import prune_columns
from penstock.plan.node import Node
from penstock.plan.query import Late, QueryPlan
from penstock.plan.stateless import Scan
from penstock.plan.streams import StreamDefinition
from penstock.spark.sources.dataframe import DataFrameSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def narrowed(query: QueryPlan) -> Node:
    """The plan over scans of the columns that it needs.  Late tuples that somebody asks for come
    with all of theirs."""
    return prune_columns(query.input, _may_go) if query.late is Late.DROP else query.input


def _may_go(stream: StreamDefinition, field: Field) -> bool:
    """Whether no value of a column can be what rejects a row, so that it need not be read."""
    from penstock.spark.catalyst.types import (
        holds_as_declared,  # needs PySpark, which explaining does not
    )

    if not isinstance(stream.source, DataFrameSource):
        return False
    types = {each.name: each.dataType for each in stream.source.frame.schema}
    return field.name in types and holds_as_declared(types[field.name], field.type)


def columns_read(scan: Scan, frame: DataFrame) -> list[str]:
    """The columns of a DataFrame that a scan wants, by the names that they have there."""
    names = {name.lower() for name in scan.stream.input_schema.names}
    return [each for each in frame.columns if each.lower() in names]


def read(scan: Scan, frame: DataFrame) -> DataFrame:
    wanted = columns_read(scan, frame)
    return frame.drop(*(each for each in frame.columns if each not in wanted))
