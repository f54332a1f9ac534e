"""What holds for compiled expressions as such: constants, errors, NULLs, batches of any shape."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.errors import PlanError, RunError, Span
from penstock.expressions.compiler import compile_expression, compile_predicate
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    STRING,
    Field,
    Schema,
    Type,
    decimal_type,
)
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal
from penstock.plan.expressions import Case as CaseWhen

A, B, T = Column("a", BIGINT), Column("b", BIGINT), Column("t", STRING)
SCHEMA = Schema((Field("a", BIGINT), Field("b", BIGINT), Field("t", STRING)))
BATCH = pa.record_batch(
    [pa.array([1, None, 3]), pa.array([10, 20, None]), pa.array(["x", "7", None])],
    schema=SCHEMA.arrow,
)


def number(value: int | None) -> Literal:
    return Literal(value, BIGINT)


def plus(left: Expression, right: Expression) -> Call:
    return Call("add", (left, right), BIGINT)


def values(expression: Expression, batch: pa.RecordBatch = BATCH) -> list[object]:
    column: list[object] = compile_expression(expression, SCHEMA)(batch).to_pylist()
    return column


def test_a_column_is_handed_through() -> None:
    assert compile_expression(A, SCHEMA)(BATCH).equals(BATCH.column(0))


def test_columns_are_found_by_relation_and_position() -> None:
    schema = Schema((Field("a", BIGINT, "l"), Field("a", BIGINT, "r")))
    batch = pa.record_batch([pa.array([1]), pa.array([2])], schema=schema.arrow)
    assert compile_expression(Column("a", BIGINT, "r"), schema)(batch).to_pylist() == [2]
    with pytest.raises(PlanError, match="no column a among"):
        compile_expression(A, schema)


@pytest.mark.parametrize("sql_type", [BOOLEAN, INT, DOUBLE, STRING, decimal_type(4, 1), NULL])
def test_null_literals_have_their_type(sql_type: Type) -> None:
    column = compile_expression(Literal(None, sql_type), SCHEMA)(BATCH)
    assert column.type == sql_type.arrow
    assert column.null_count == 3


def test_literals_need_no_columns() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 2, pa.struct([])))
    compiled = compile_expression(plus(number(1), number(2)), Schema(()))
    assert compiled(batch).to_pylist() == [3, 3]


def test_constants_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expression = plus(A, Call("length", (Literal("abc", STRING),), BIGINT))
    compiled = compile_expression(expression, SCHEMA)
    monkeypatch.setattr("penstock.expressions.evaluation.FUNCTIONS", {})
    assert compiled(BATCH).to_pylist() == [4, None, 6]


def test_a_constant_without_a_value_fails_when_a_row_needs_it() -> None:
    bad = Cast(Literal("x", STRING), BIGINT)
    compiled = compile_expression(plus(A, bad), SCHEMA)
    assert compiled(BATCH.slice(0, 0)).to_pylist() == []
    with pytest.raises(RunError, match="'x' cannot be made a BIGINT"):
        compiled(BATCH)
    unneeded = CaseWhen(((Call("is_null", (T,), BOOLEAN), number(0)),), bad, BIGINT)
    assert values(unneeded, BATCH.slice(2)) == [0]


def test_errors_point_at_the_expression() -> None:
    expression = Call("multiply", (B, number(2**62)), BIGINT, span=Span(7, 12))
    with pytest.raises(RunError) as caught:
        values(expression)
    assert caught.value.message == f"{10 * 2**62} is too large for BIGINT"
    assert caught.value.span == Span(7, 12)
    assert caught.value.hint == "look at (b * 4611686018427387904)"


def test_both_arguments_are_computed_even_if_one_is_null() -> None:
    with pytest.raises(RunError, match="cannot be made a BIGINT"):
        values(plus(number(None), Cast(T, BIGINT)))


def test_columns_of_bare_nulls() -> None:
    schema = Schema((Field("n", NULL), Field("a", BIGINT)))
    batch = pa.record_batch([pa.nulls(2), pa.array([1, None])], schema=schema.arrow)
    n = Column("n", NULL)
    expressions = [
        (plus(Cast(n, BIGINT), A), [None, None]),
        (Call("coalesce", (Cast(n, BIGINT), A), BIGINT), [1, None]),
        (Call("is_null", (n,), BOOLEAN), [True, True]),
        (Call("in", (A, Cast(n, BIGINT), number(1)), BOOLEAN), [True, None]),
        (CaseWhen(((Call("is_null", (A,), BOOLEAN), n),), n, NULL), [None, None]),
        (n, [None, None]),
    ]
    for expression, expected in expressions:
        column = compile_expression(expression, schema)(batch)
        assert column.type == expression.type.arrow
        assert column.to_pylist() == expected


@pytest.mark.parametrize("value", [True, False, None])
def test_a_predicate_is_true_only_where_it_is_true(value: bool | None) -> None:
    mask = compile_predicate(Literal(value, BOOLEAN), SCHEMA)(BATCH)
    assert mask.to_pylist() == [value is True] * 3
    compared = compile_predicate(Call("gt", (A, number(1)), BOOLEAN), SCHEMA)(BATCH)
    assert compared.to_pylist() == [False, False, True]
    assert BATCH.filter(compared).num_rows == 1


def test_long_chains(agree: Callable[..., None]) -> None:
    chain: Expression = A
    for _ in range(200):
        chain = plus(chain, B)
    agree(chain, SCHEMA, [(1, 2, None), (None, 1, None)])
    either = Call("or", tuple(Call("eq", (A, number(i)), BOOLEAN) for i in range(500)), BOOLEAN)
    agree(either, SCHEMA, [(499, 0, None), (500, 0, None), (None, 0, None)])
