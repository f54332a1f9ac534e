"""CAST and TRY_CAST as Spark columns."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from penstock.model.types import Kind, Type
from penstock.plan.expressions import Cast
from penstock.plan.properties.can_fail import may_fail
from penstock.spark.catalyst.inexact import Inexact
from penstock.spark.catalyst.times import days_of, micros_of
from penstock.spark.catalyst.types import spark_type

_EXACT_DIGITS = 15  # so many decimal digits are exact in a DOUBLE


def cast_column(cast: Cast, operand: SparkColumn) -> SparkColumn:
    given, wanted = cast.operand.type, cast.type
    if given == wanted:
        return operand
    if wanted.kind is Kind.INTERVAL or given.kind is Kind.INTERVAL:
        raise Inexact("Spark writes INTERVAL in another way")
    if cast.tries and may_fail(cast.operand):
        raise Inexact(f"{cast.operand} may fail, which is not for TRY_CAST to hide")
    match given.kind, wanted.kind:
        case Kind.TIMESTAMP, Kind.DATE:
            return F.date_from_unix_date(days_of(operand, given))
        case Kind.DATE, Kind.TIMESTAMP if not (cast.tries and may_fail(Cast(cast.operand, wanted))):
            return F.timestamp_micros(micros_of(operand, given))
    reason = _unlike(given, wanted)
    if reason is not None:
        raise Inexact(f"CAST({given} AS {wanted}): {reason}")
    spark = spark_type(wanted)
    return operand.try_cast(spark) if cast.tries else operand.cast(spark)


def _unlike(given: Type, wanted: Type) -> str | None:
    """What Spark does otherwise."""
    match given.kind, wanted.kind:
        case Kind.NULL, _:
            return None
        case ((Kind.STRING | Kind.BINARY), _):
            return "Spark reads texts by other rules"
        case Kind.DOUBLE, Kind.STRING | Kind.DECIMAL:
            return "Java writes doubles with other digits"
        case Kind.DOUBLE, Kind.BIGINT:
            return "Spark makes 2^63 the largest BIGINT instead of an error"
        case Kind.DECIMAL, Kind.DOUBLE if given.precision > _EXACT_DIGITS:
            return "Spark may round twice"
        case ((Kind.DATE | Kind.TIMESTAMP), _):
            return "Spark writes times in another way"
    return None
