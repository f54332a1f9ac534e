"""Functions that users have registered with a Spark session, as SQL of Penstock calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.serializers import CPickleSerializer
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from penstock.errors import BindError, EngineError
from penstock.functions.user_functions import UserFunction
from penstock.model.types import NULL, Kind, Type
from penstock.spark.catalyst.types import spark_type, type_from_spark
from penstock.spark.session.worker_errors import first_line, is_of_spark

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

BY_ROW = (100, 101)  # the numbers that PySpark has for kinds of functions
PANDAS, PANDAS_ITERATOR = 200, 204
ARROW, ARROW_ITERATOR = 250, 251
KINDS = (*BY_ROW, PANDAS, PANDAS_ITERATOR, ARROW, ARROW_ITERATOR)


@dataclass(frozen=True)
class PythonUdf:
    """A Python function that is registered with a Spark session (`spark.udf.register`), called on
    Arrow columns.

    It gets the arguments that Spark would give it: Python values, with times without a time zone in
    that of the machine; pandas Series, with times in that of the session; or Arrow arrays.  NULLs
    are passed as well.
    """

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
    """Convert a result: Spark makes texts of values that should be texts; all others must have the
    declared type."""
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


# Functions of the session.
#
# A Python function is taken out of the session and runs on every engine.  Any other (Java, Scala,
# SQL) is Spark's to compute: on columns of a DataFrame, before anything else is done with its
# rows.

_TIME_ZONE = "spark.sql.session.timeZone"
_LOGGER = "DataFrameQueryContextLogger"  # where PySpark writes what cannot be analyzed
# calls of one function are one expression, so what was found before is found again
_known: dict[tuple[str, bytes, str], UserFunction] = {}
_only_spark: dict[str, UserFunction] = {}


def function_of(name: str, session: SparkSession) -> UserFunction | None:
    """Function of that name, if a user of the session has registered it."""
    if not name.isidentifier() or name.casefold() not in map(str.casefold, own_functions(session)):
        return None
    found = _of_python(name, session)
    if found is not None:
        return found
    computed = _only_spark.setdefault(
        name,
        UserFunction(name, partial(_refuse, name), NULL, takes_nulls=True, only_spark=True),
    )
    return replace(computed, typed=partial(_analyzed, name, session))


def own_functions(session: SparkSession) -> list[str]:
    """Names of the functions that users have registered, without the schema."""
    rows = session.sql("SHOW USER FUNCTIONS").collect()
    return [str(row["function"]).rpartition(".")[2] for row in rows]


def _refuse(name: str, *_: Any) -> Any:
    raise EngineError(
        f"{name} is a function of the Spark session that is not of Python, so only Spark computes"
        " it, on the columns of a DataFrame",
        hint=f"(SELECT …, {name}(…) AS value FROM view) as the input of the query",
    )


def _of_python(name: str, session: SparkSession) -> UserFunction | None:
    """Python function that Spark would send to its workers, unpacked here; None if it is not
    one."""
    try:
        with _quiet():
            called = session.range(0).select(F.call_function(name))
        made: Any = called._jdf.queryExecution().analyzed().expressions().head().child()
        kind, packed = int(made.evalType()), bytes(made.func().command().unsafeArray())
    except Exception as error:
        if not is_of_spark(error):
            raise
        return None  # not of Python, or not to be had
    if kind not in KINDS:
        return None
    if not made.udfDeterministic():
        raise BindError(f"{name} is not deterministic, so the answer would not be either")
    function, spark_type = CPickleSerializer().loads(packed)[:2]  # type: ignore[no-untyped-call]
    returns = type_from_spark(spark_type)
    if returns is None:
        raise BindError(f"{name} returns {spark_type.simpleString()}, which is no type of Penstock")
    time_zone = str(session.conf.get(_TIME_ZONE))
    implementation = PythonUdf(function, kind, returns, time_zone)
    made_of = UserFunction(name, implementation, returns, takes_nulls=True)
    return _known.setdefault((name, packed, time_zone), made_of)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the log of analysis errors: Spark may not know the function, which is expected."""
    logger = PySparkLogger.getLogger(_LOGGER)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _analyzed(name: str, session: SparkSession, types: Sequence[Type]) -> Type:
    """Type that the function returns for arguments of these types, as Spark says it."""
    fields = [StructField(f"a{each}", spark_type(of)) for each, of in enumerate(types)]
    empty = session.createDataFrame([], StructType(fields))
    try:
        with _quiet():
            (found,) = empty.select(F.call_function(name, *empty.columns)).schema
    except PySparkException as error:
        raise BindError(f"Spark refuses {name}: {first_line(error)}") from error
    returns = type_from_spark(found.dataType)
    if returns is None:
        shown = found.dataType.simpleString()
        raise BindError(f"{name} returns {shown}, which is no type of Penstock")
    return returns
