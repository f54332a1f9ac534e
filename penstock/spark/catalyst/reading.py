"""What Catalyst reads of a DataFrame: the columns that a query looks at, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.plan.nodes.stateless import Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def columns_read(scan: Scan, frame: DataFrame) -> list[str]:
    """The columns of a DataFrame that a scan wants, by the names that they have there."""
    names = {name.lower() for name in scan.stream.input_schema.names}
    return [each for each in frame.columns if each.lower() in names]


def read(scan: Scan, frame: DataFrame) -> DataFrame:
    wanted = columns_read(scan, frame)
    return frame.drop(*(each for each in frame.columns if each not in wanted))
