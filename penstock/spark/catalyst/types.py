"""Types and schemas of streams and results, as Spark has them."""

from __future__ import annotations

from pyspark.sql import types as spark

from penstock.errors import BindError
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Field,
    Kind,
    Schema,
    Type,
    array_of,
    decimal_type,
    map_of,
    struct_of,
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
    match sql_type.kind:
        case Kind.ARRAY:
            return spark.ArrayType(spark_type(sql_type.item))
        case Kind.MAP:
            (_, key), (_, item) = sql_type.parts
            return spark.MapType(spark_type(key), spark_type(item))
        case Kind.STRUCT:
            fields = [spark.StructField(name, spark_type(part)) for name, part in sql_type.parts]
            return spark.StructType(fields)
    return _TO_SPARK[sql_type.kind]


def from_spark(schema: spark.StructType) -> Schema:
    """The columns of a DataFrame as a stream has them."""
    return Schema(tuple(Field(field.name, _of_column(field)) for field in schema.fields))


def type_from_spark(found: spark.DataType) -> Type | None:
    """Type of a stream's column, or None."""
    match found:
        case spark.DecimalType():
            return decimal_type(found.precision, found.scale)
        case spark.ArrayType():
            item = type_from_spark(found.elementType)
            return None if item is None else array_of(item)
        case spark.MapType():
            key, value = type_from_spark(found.keyType), type_from_spark(found.valueType)
            if key is None or value is None or key.is_nested or key == DOUBLE:
                return None
            return map_of(key, value)
        case spark.StructType():
            parts = [(each.name, type_from_spark(each.dataType)) for each in found.fields]
            known = [(name, part) for name, part in parts if part is not None]
            return struct_of(known) if known and len(known) == len(parts) else None
    return _FROM_SPARK.get(type(found))


def _of_column(field: spark.StructField) -> Type:
    found = type_from_spark(field.dataType)
    if found is None:
        raise BindError(
            f"column {field.name!r} is of Spark's type {field.dataType.simpleString()}",
            expected="numbers, strings, binary, booleans, dates, timestamps, or arrays, structs and"
            " maps of them",
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
        case spark.ArrayType() | spark.StructType() | spark.MapType():
            return bool(type_from_spark(found) == declared)
        case wanted:
            return found == wanted
