"""Expressions of a plan as Spark columns, CAST and TRY_CAST among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from penstock.model.types import Kind, Schema, Type
from penstock.plan.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    TableValue,
    may_fail,
)
from penstock.spark.catalyst.functions import FUNCTIONS, LEFT_OUT, Inexact, days_of, micros_of
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
    reason = _difference(given, wanted)
    if reason is not None:
        raise Inexact(f"CAST({given} AS {wanted}): {reason}")
    spark = spark_type(wanted)
    return operand.try_cast(spark) if cast.tries else operand.cast(spark)


def _difference(given: Type, wanted: Type) -> str | None:
    """Reason why Spark's cast differs from Penstock's, or None."""
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


# Expressions as Spark columns, where Spark gives exactly the value that Penstock does.
#
# A column has Spark's type of the expression (`types.py`); inside, an INTERVAL is its
# microseconds as a BIGINT.  Columns mean what they should under `SETTINGS`, which have to hold
# while they are put into a DataFrame.

SETTINGS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
}
# Functions of which Spark always evaluates the first argument, and fails if that fails.
_STRICT = {
    *("add", "subtract", "multiply", "divide", "div", "mod", "negate", "abs", "sign"),
    *("eq", "ne", "lt", "le", "gt", "ge", "floor", "ceil", "round", "sqrt"),
    *("timestamp_seconds", "timestamp_millis", "timestamp_micros", "date_trunc", "date"),
    *("epoch", "epoch_ms", "epoch_us"),
}


def spark_column(expression: Expression, schema: Schema) -> SparkColumn | None:
    """The expression over a DataFrame with the columns of `schema`; None where Spark would give
    something else."""
    made = column_or_reason(expression, schema)
    return None if isinstance(made, str) else made


def column_or_reason(expression: Expression, schema: Schema) -> SparkColumn | str:
    """The column, or why Spark is not asked for it."""
    if expression.type.is_nested and not isinstance(expression, Column):
        return f"{expression.type} is put together in Arrow"
    if expression.type.kind in (Kind.INTERVAL, Kind.NULL):
        return f"{expression.type} is no type of a column"
    try:
        return _column(expression, schema)
    except Inexact as unlike:
        return str(unlike)


def quoted(name: str) -> str:
    """A name as Spark reads it back."""
    return "`" + name.replace("`", "``") + "`"


def _column(expression: Expression, schema: Schema) -> SparkColumn:
    match expression:
        case Column():
            field = schema.fields[expression.position(schema)]
            if field.type.kind is Kind.INTERVAL:
                raise Inexact("INTERVAL is no type of a column")
            return F.col(quoted(field.name))
        case Literal():
            return literal(expression.value, expression.type)
        case Cast():
            return cast_column(expression, _column(expression.operand, schema))
        case Case():
            return _case(expression, schema)
        case Call("if"):
            condition, yes, no = expression.arguments
            return _case(Case(((condition, yes),), no, expression.type), schema)
        case Call():
            return _call(expression, schema)
        case TableValue():
            raise AssertionError(f"{expression} stands beside tuples by now")


def literal(value: Any, sql_type: Type) -> SparkColumn:
    if sql_type.kind is Kind.NULL:
        return F.lit(None)
    if sql_type.kind is Kind.INTERVAL or value is None:
        return F.lit(value).cast(_inside(sql_type))
    match sql_type.kind:
        case Kind.TIMESTAMP:
            return F.timestamp_micros(F.lit(value).cast("bigint"))
        case Kind.DATE:
            return F.date_from_unix_date(F.lit(value).cast("int"))
        case Kind.INT | Kind.BIGINT | Kind.DECIMAL:
            return F.lit(value).cast(spark_type(sql_type))
        case Kind.STRING if "\0" in value or not value.isprintable():
            return F.lit(value.encode()).cast("string")  # as bytes, nothing is read into it
        case _:
            return F.lit(value)


def _inside(sql_type: Type) -> Any:
    return "bigint" if sql_type.kind is Kind.INTERVAL else spark_type(sql_type)


def _case(expression: Case, schema: Schema) -> SparkColumn:
    for condition, _ in expression.branches:
        _must_not_fail(condition)
    column: Any = F
    for condition, value in expression.branches:
        column = column.when(_column(condition, schema), _column(value, schema))
    chosen: SparkColumn = column.otherwise(_column(expression.otherwise, schema))
    return chosen


def _call(call: Call, schema: Schema) -> SparkColumn:
    if call.user is not None and call.user.only_spark:
        return F.call_function(call.function, *(_column(each, schema) for each in call.arguments))
    if call.user is not None:
        raise Inexact(f"{call.function} is a function of Python")
    build = FUNCTIONS.get(call.function)
    if build is None:
        raise Inexact(f"{call.function}: {LEFT_OUT[call.function]}")
    first, *others = call.arguments
    for argument in others if call.function in _STRICT else call.arguments:
        _must_not_fail(argument)
    if may_fail(first) and any(isinstance(a, Literal) and a.value is None for a in others):
        raise Inexact(f"{first} may fail, beside NULL it would not in Spark")
    return build(call, [_column(argument, schema) for argument in call.arguments])


def _must_not_fail(expression: Expression) -> None:
    """Spark does not evaluate it where it can do without, so an error could be lost."""
    if may_fail(expression):
        raise Inexact(f"{expression} may fail, and Spark may not notice")
