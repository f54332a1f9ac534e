"""The catalog of a Spark session, for SQL: temporary views, tables, and functions of users.

A view over a streaming DataFrame is a stream.  It progresses by its watermark (`withWatermark`), if
it has one.  Every other view, and a table of the catalog, is a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import BindError
from penstock.functions.user_functions import UserFunction
from penstock.plan.streams import StreamDefinition
from penstock.spark.session.worker_errors import first_line
from penstock.spark.sources.dataframe import DataFrameSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SessionNames:
    """Looks names up in the catalog of a Spark session."""

    def __init__(self, session: Callable[[], SparkSession | None]) -> None:
        """Take a function for the session, which may be started between two look-ups."""
        self._session = session

    def relation(self, name: str) -> StreamDefinition | None:
        frame = self.frame(name)
        if frame is None:
            return None
        from penstock.spark.catalyst.types import from_spark

        try:
            columns = from_spark(frame.schema)
        except BindError as error:
            error.message = f"{name}: {error.message}"
            raise
        source = DataFrameSource(frame)
        if not frame.isStreaming:
            return StreamDefinition(name, columns, None, source, is_table=True, of_session=True)
        progress = source.promised(columns)
        return StreamDefinition(name, columns, progress, source, of_session=True)

    def frame(self, name: str) -> DataFrame | None:
        """Current view or table of that name, or None."""
        session, own = self._session(), _in_spark(name)
        if session is None:
            return None
        from pyspark.errors import PySparkException

        try:
            if session.catalog.tableExists(own):
                return session.table(own)
        except PySparkException as error:  # a view may be over something that is not there any more
            raise BindError(f"Spark cannot read {name}: {first_line(error)}") from error
        return None

    def relations(self) -> list[str]:
        """Candidates for an unknown name; errors of Spark are ignored, because these are only
        hints."""
        session = self._session()
        if session is None:
            return []
        from pyspark.errors import PySparkException

        try:
            return [str(row["tableName"]) for row in session.sql("SHOW TABLES").collect()]
        except PySparkException:
            return []

    def function(self, name: str) -> UserFunction | None:
        session = self._session()
        if session is None:
            return None
        from penstock.spark.session.session_functions import function_of

        return function_of(name, session)

    def functions(self) -> list[str]:
        session = self._session()
        if session is None:
            return []
        from penstock.spark.session.session_functions import own_functions

        return own_functions(session)


def _in_spark(name: str) -> str:
    """A name as Spark reads it: with a catalog and a schema before it, or in back quotes.

    >>> _in_spark("sales.orders"), _in_spark("last year")
    ('sales.orders', '`last year`')
    """
    if all(part.isidentifier() for part in name.split(".")):
        return name
    return "`" + name.replace("`", "``") + "`"
