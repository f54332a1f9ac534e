"""Functions of Python that are registered with a Spark session (`spark.udf.register`), called on
Arrow columns.

They get what Spark would give them: values of Python, times without a time zone in that of the
machine; pandas Series, times in that of the session; or Arrow arrays.  NULLs are given as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.model.types import Kind, Type

if TYPE_CHECKING:
    import pandas as pd

BY_ROW = (100, 101)  # the numbers that PySpark has for kinds of functions
PANDAS, PANDAS_ITERATOR = 200, 204
ARROW, ARROW_ITERATOR = 250, 251
KINDS = (*BY_ROW, PANDAS, PANDAS_ITERATOR, ARROW, ARROW_ITERATOR)


@dataclass(frozen=True)
class PythonUdf:
    function: Callable[..., Any]
    kind: int
    returns: Type
    time_zone: str  # of the session

    def __call__(self, *columns: pa.Array) -> Any:
        if self.kind in BY_ROW:
            rows = zip(*map(_values, columns), strict=True)
            return [_given_back(self.function(*row), self.returns) for row in rows]
        given: Sequence[Any] = columns
        if self.kind in (PANDAS, PANDAS_ITERATOR):
            given = [_series(each, self.time_zone) for each in columns]
        if self.kind in (PANDAS, ARROW):
            found = self.function(*given)
        else:
            one = given[0] if len(given) == 1 else tuple(given)
            found = _joined(list(self.function(iter([one]))))
        return found if self.kind in (ARROW, ARROW_ITERATOR) else self._column(found)

    def _column(self, series: pd.Series) -> pa.Array:
        wanted = self.returns.arrow
        if self.returns.kind is Kind.TIMESTAMP and getattr(series.dt, "tz", None) is None:
            series = series.dt.tz_localize(self.time_zone)
        return pa.Array.from_pandas(series, type=wanted)


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_timestamp(column.type):
        return [None if each is None else each.astimezone().replace(tzinfo=None) for each in values]
    if pa.types.is_struct(column.type):
        from pyspark.sql import Row

        return [None if each is None else Row(**each) for each in values]
    return values


def _given_back(value: Any, wanted: Type) -> Any:
    """Spark makes texts of what should be one; everything else has to be what was said."""
    if wanted.kind is Kind.STRING and value is not None and not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.astimezone(UTC)
    if wanted.kind is Kind.STRUCT and isinstance(value, tuple):
        return dict(zip((name for name, _ in wanted.parts), value, strict=True))
    return value


def _series(column: pa.Array, time_zone: str) -> pd.Series:
    series = column.to_pandas(date_as_object=True)
    if pa.types.is_timestamp(column.type):
        return series.dt.tz_convert(time_zone).dt.tz_localize(None)
    return series


def _joined(parts: Iterable[Any]) -> Any:
    found = list(parts)
    if len(found) == 1:
        return found[0]
    if isinstance(found[0], pa.Array):
        return pa.concat_arrays(found)
    import pandas as pd

    return pd.concat(found, ignore_index=True)
