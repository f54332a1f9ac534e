"""Spark columns give what the reference evaluator gives: every function, and random expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from penstock.errors import RunError
from penstock.functions.scalar_functions import SCALARS
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    INT,
    INTERVAL,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    decimal_type,
)
from penstock.model.values import to_arrow, to_python
from penstock.plan.expressions import (
    FUNCTION_NAMES,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    may_fail,
)
from penstock.spark.catalyst.columns import SETTINGS, column_or_reason, spark_column
from penstock.spark.catalyst.functions import FUNCTIONS, LEFT_OUT
from penstock.spark.catalyst.types import to_spark
from penstock.spark.session.session import setting
from tests.expressions.conftest import Rows, oracle, same
from tests.expressions.test_every_function import (
    _CASTS as CASTS,
)
from tests.expressions.test_every_function import (
    functions,
    odd_values,
    operators,
    result_type,
    shapes,
)
from tests.expressions.test_properties import TYPES, Maker, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT_ONCE = 400  # expressions in one Spark job
COLUMNS = [each for each in TYPES if each != INTERVAL]


def frame(spark: SparkSession, schema: Schema, rows: Rows) -> DataFrame:
    """The rows, numbered in a column before all others."""
    columns = [
        to_arrow([row[position] for row in rows], field.type)
        for position, field in enumerate(schema)
    ]
    table = pa.table([pa.array(range(len(rows))), *columns], names=["row", *schema.arrow.names])
    return spark.createDataFrame(table, to_spark(Schema((Field("row", BIGINT), *schema))))


def compare(
    spark: SparkSession, schema: Schema, rows: Rows, expressions: Sequence[Expression]
) -> int:
    """All expressions in one select, on the rows of which they have a value.  How many there were
    that Spark is asked for."""
    asked, wanted = [], []
    for expression in expressions:
        column = spark_column(expression, schema)
        if column is not None:
            expected = oracle(expression, schema, rows)
            bad = [row for row, value in enumerate(expected) if isinstance(value, RunError)]
            asked.append(F.when(~F.col("row").isin(bad), column) if bad else column)
            wanted.append((expression, expected))
    if not asked:
        return 0
    named = [column.alias(f"y{number}") for number, column in enumerate(asked)]
    found = frame(spark, schema, rows).select("row", *named).toArrow().sort_by("row")
    for (expression, expected), column in zip(wanted, found.columns[1:], strict=True):
        assert column.type == expression.type.arrow, str(expression)
        for row, value, right in zip(
            rows, to_python(column, expression.type), expected, strict=True
        ):
            if isinstance(right, RunError):
                continue
            assert same(value, right), f"{expression} of {row}: {value!r} instead of {right!r}"
    return len(asked)


@pytest.fixture(scope="module", autouse=True)
def _settings(spark: SparkSession) -> Iterator[None]:
    with setting(spark, SETTINGS):
        yield


# --- every function on every type ----------------------------------------------------------------

CALLS = [call for call in (*functions(), *operators()) if INTERVAL not in call[1]]
CONVERSIONS = [pair for pair in CASTS if INTERVAL not in pair]
WIDE = Schema(
    tuple(
        Field(f"{letter}{number}", sql_type)
        for number, sql_type in enumerate(dict.fromkeys(t for _, types in CALLS for t in types))
        for letter in "abcd"  # as many as a function takes of one type
    )
)


def wide_rows(count: int) -> Rows:
    """Odd values in all columns, combined at random."""
    random = Random(7)
    return [tuple(random.choice(odd_values(field.type)) for field in WIDE) for _ in range(count)]


def columns_for(types: tuple[Type, ...]) -> Schema:
    """Columns of these types, a different one for each."""
    fields = {t: iter([each for each in WIDE if each.type == t]) for t in types}
    return Schema(tuple(next(fields[sql_type]) for sql_type in types))


def every_expression() -> Iterator[Expression]:
    for name, types in CALLS:
        every = list(shapes(name, columns_for(types)))
        for arguments in [every[0], *every[1 :: len(every) // 4 + 1]]:
            call = Call(name, arguments, result_type(name, types))
            # an INTERVAL is no column, but may be in one
            yield (
                Call("gt", (call, Literal(5, INTERVAL)), BOOLEAN) if call.type == INTERVAL else call
            )
    for given_type, wanted in CONVERSIONS:
        column = Column.of(columns_for((given_type,)).fields[0])
        yield from (Cast(column, wanted, tries) for tries in (False, True))


def test_every_function(spark: SparkSession) -> None:
    expressions = list(every_expression())
    rows = wide_rows(60)
    asked = sum(
        compare(spark, WIDE, rows, expressions[begin : begin + AT_ONCE])
        for begin in range(0, len(expressions), AT_ONCE)
    )
    assert asked > len(expressions) / 2


# --- random expressions --------------------------------------------------------------------------


@st.composite
def many_expressions(draw: Callable[..., Any]) -> tuple[Schema, Rows, list[Expression]]:
    schema = schema_of(draw(st.lists(st.sampled_from(COLUMNS), min_size=4, max_size=8)))
    made = []
    for _ in range(80):
        expression = Maker(draw, schema).of_type(draw(st.sampled_from(COLUMNS)), 2)
        if not isinstance(expression, Literal | Column):
            made.append(expression)
    rows = draw(st.lists(st.tuples(*(values(f.type) for f in schema)), min_size=10, max_size=10))
    return schema, rows, made


def schema_of(types: Sequence[Type]) -> Schema:
    return Schema(tuple(Field(f"c{i}", sql_type) for i, sql_type in enumerate(types)))


@settings(
    max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(case=many_expressions())
def test_random_expressions(spark: SparkSession, case: Any) -> None:
    compare(spark, *case)


# --- errors --------------------------------------------------------------------------------------

LARGE, SMALL = Column("large", BIGINT), Column("small", INT)
NUMBERS = Schema((Field("large", BIGINT), Field("small", INT)))
ONE = Literal(1, BIGINT)
PLUS_ONE = Call("add", (LARGE, ONE), BIGINT)


@pytest.mark.parametrize(
    "expression",
    [
        PLUS_ONE,
        Call("add", (PLUS_ONE, Literal(-1, BIGINT)), BIGINT),
        Call("negate", (Call("subtract", (Literal(-2, BIGINT), LARGE), BIGINT),), BIGINT),
        Call("timestamp_millis", (LARGE,), TIMESTAMP),
        Cast(LARGE, INT),
        Cast(LARGE, decimal_type(18, 0)),
    ],
    ids=str,
)
def test_what_is_an_error_is_one_in_spark(spark: SparkSession, expression: Expression) -> None:
    rows = [(2**63 - 1, 0)]
    assert isinstance(oracle(expression, NUMBERS, rows)[0], RunError)
    column = spark_column(expression, NUMBERS)
    assert column is not None
    with pytest.raises(PySparkException):
        frame(spark, NUMBERS, rows).select(column).toArrow()


@pytest.mark.parametrize(
    "expression",
    [
        Call(
            "and",
            (Call("gt", (LARGE, ONE), BOOLEAN), Call("gt", (PLUS_ONE, ONE), BOOLEAN)),
            BOOLEAN,
        ),
        Call("multiply", (LARGE, PLUS_ONE), BIGINT),
        Call("add", (PLUS_ONE, Literal(None, BIGINT)), BIGINT),
        Call("is_null", (PLUS_ONE,), BOOLEAN),
        Call("coalesce", (LARGE, PLUS_ONE), BIGINT),
        Cast(PLUS_ONE, INT, tries=True),
    ],
    ids=str,
)
def test_an_error_that_spark_could_miss_is_left_to_the_kernel(
    spark: SparkSession, expression: Expression
) -> None:
    reason = column_or_reason(expression, NUMBERS)
    assert isinstance(reason, str)
    assert "may fail" in reason


def test_sums_of_small_numbers_cannot_fail() -> None:
    product = Call("multiply", (Cast(SMALL, BIGINT), Cast(SMALL, BIGINT)), BIGINT)
    assert not may_fail(Call("add", (product, ONE), BIGINT))
    assert may_fail(Call("multiply", (product, product), BIGINT))


def test_the_table_has_a_word_on_every_function() -> None:
    assert set(FUNCTIONS) | set(LEFT_OUT) | {"if"} == FUNCTION_NAMES
    assert not set(FUNCTIONS) & set(LEFT_OUT)
    assert set(SCALARS) <= FUNCTION_NAMES
