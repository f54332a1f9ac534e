"""Functions that a Spark session has registered, as SQL of Penstock calls them.

One of Python is taken out of the session and runs on every engine.  Any other (Java, Scala, SQL) is
Spark's to compute: on columns of a DataFrame, before anything else is done with its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.serializers import CPickleSerializer
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from penstock.errors import BindError, EngineError
from penstock.functions.user_functions import UserFunction
from penstock.model.types import NULL, Type
from penstock.spark.catalyst.types import spark_type, type_from_spark
from penstock.spark.session.python_udfs import KINDS, PythonUdf
from penstock.spark.tasks.worker_errors import first_line, is_of_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIME_ZONE = "spark.sql.session.timeZone"
_LOGGER = "DataFrameQueryContextLogger"  # where PySpark writes what cannot be analyzed
# calls of one function are one expression, so what was found before is found again
_known: dict[tuple[str, bytes, str], UserFunction] = {}
_only_spark: dict[str, UserFunction] = {}


def function_of(name: str, session: SparkSession) -> UserFunction | None:
    """The function of that name, if a user of the session has made it."""
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
    """What users have registered, without the schema before the names."""
    rows = session.sql("SHOW USER FUNCTIONS").collect()
    return [str(row["function"]).rpartition(".")[2] for row in rows]


def _refuse(name: str, *_: Any) -> Any:
    raise EngineError(
        f"{name} is a function of the Spark session that is not of Python, so only Spark computes"
        " it, on the columns of a DataFrame",
        hint=f"(SELECT …, {name}(…) AS value FROM view) as the input of the query",
    )


def _of_python(name: str, session: SparkSession) -> UserFunction | None:
    """What Spark would send to its workers, unpacked here."""
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
    """A question that Spark may refuse to answer is nothing to log."""
    logger = PySparkLogger.getLogger(_LOGGER)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _analyzed(name: str, session: SparkSession, types: Sequence[Type]) -> Type:
    """What Spark says that the function returns for arguments of these types."""
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
