"""Schemas of streams and results as Spark has them."""

from __future__ import annotations

from pyspark.sql import types as spark

from penstock.errors import BindError
from penstock.model.schema import Field, Schema
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal_type,
)

_TO_SPARK: dict[Kind, spark.DataType] = {
    Kind.BOOLEAN: spark.BooleanType(),
    Kind.INT: spark.IntegerType(),
    Kind.BIGINT: spark.LongType(),
    Kind.DOUBLE: spark.DoubleType(),
    Kind.STRING: spark.StringType(),
    Kind.BINARY: spark.BinaryType(),
    Kind.DATE: spark.DateType(),
    Kind.TIMESTAMP: spark.TimestampType(),
    Kind.INTERVAL: spark.DayTimeIntervalType(),
}
_FROM_SPARK: dict[type[spark.DataType], Type] = {
    spark.BooleanType: BOOLEAN,
    spark.ByteType: INT,
    spark.ShortType: INT,
    spark.IntegerType: INT,
    spark.LongType: BIGINT,
    spark.FloatType: DOUBLE,
    spark.DoubleType: DOUBLE,
    spark.StringType: STRING,
    spark.BinaryType: BINARY,
    spark.DateType: DATE,
    spark.TimestampType: TIMESTAMP,
    spark.TimestampNTZType: TIMESTAMP,
}


def to_spark(schema: Schema) -> spark.StructType:
    return spark.StructType(
        [spark.StructField(field.name, spark_type(field.type)) for field in schema]
    )


def spark_type(sql_type: Type) -> spark.DataType:
    if sql_type.kind is Kind.DECIMAL:
        return spark.DecimalType(sql_type.precision, sql_type.scale)
    return _TO_SPARK[sql_type.kind]


def from_spark(schema: spark.StructType) -> Schema:
    """The columns of a DataFrame as a stream has them."""
    return Schema(tuple(Field(field.name, _from_spark(field)) for field in schema.fields))


def _from_spark(field: spark.StructField) -> Type:
    if isinstance(field.dataType, spark.DecimalType):
        return decimal_type(field.dataType.precision, field.dataType.scale)
    found = _FROM_SPARK.get(type(field.dataType))
    if found is None:
        raise BindError(
            f"column {field.name!r} is of Spark's type {field.dataType.simpleString()}",
            expected="numbers, strings, binary, booleans, dates or timestamps",
            hint=f"df.drop({field.name!r}), or select the fields of it that are needed",
        )
    return found


def holds_as_declared(found: spark.DataType, declared: Type) -> bool:
    """Whether Spark holds the very values; a text with a collation compares differently."""
    match spark_type(declared):
        case spark.IntegerType():
            return isinstance(found, spark.ByteType | spark.ShortType | spark.IntegerType)
        case spark.DoubleType():
            return isinstance(found, spark.FloatType | spark.DoubleType)
        case wanted:
            return found == wanted
