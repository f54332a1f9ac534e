"""CASE and IF leave alone what they do not take, also when it would fail."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.errors import RunError
from penstock.expressions.compiler import compile_expression
from penstock.model.types import BIGINT, BOOLEAN, STRING, Field, Schema
from penstock.plan.expressions import Call, Case, Cast, Column, Expression, Literal

SCHEMA = Schema((Field("a", BIGINT), Field("t", STRING)))
A, T = Column("a", BIGINT), Column("t", STRING)
AS_NUMBER = Cast(T, BIGINT)
ROWS = [(1, "7"), (2, "x"), (None, "8"), (1, None), (3, "y"), (1, "9")]


def is_(value: int) -> Expression:
    return Call("eq", (A, Literal(value, BIGINT)), BOOLEAN)


def test_a_branch_fails_only_for_its_rows(agree: Callable[..., None]) -> None:
    zero = Literal(0, BIGINT)
    agree(Case(((is_(1), AS_NUMBER),), zero, BIGINT), SCHEMA, ROWS)
    agree(Call("if", (is_(1), AS_NUMBER, A), BIGINT), SCHEMA, ROWS)
    agree(Case(((is_(2), zero), (is_(3), A)), AS_NUMBER, BIGINT), SCHEMA, ROWS)


def test_a_condition_fails_only_for_its_rows(agree: Callable[..., None]) -> None:
    late = Call("gt", (AS_NUMBER, Literal(7, BIGINT)), BOOLEAN)
    branches = ((is_(2), Literal(-2, BIGINT)), (is_(3), A), (late, AS_NUMBER))
    agree(Case(branches, Literal(None, BIGINT), BIGINT), SCHEMA, ROWS)


def test_a_row_that_fails_is_an_error(agree: Callable[..., None]) -> None:
    agree(Case(((is_(2), AS_NUMBER),), A, BIGINT), SCHEMA, ROWS)


def test_failing_once_does_not_change_later_answers() -> None:
    compiled = compile_expression(Case(((is_(1), AS_NUMBER),), A, BIGINT), SCHEMA)

    def run(*rows: tuple[int | None, str | None]) -> list[int | None]:
        columns = zip(*rows, strict=True)
        batch = pa.record_batch([pa.array(each) for each in columns], names=["a", "t"])
        found: list[int | None] = compiled(batch).to_pylist()
        return found

    assert run((1, "7"), (2, "8")) == [7, 2]
    assert run((1, "7"), (2, "x")) == [7, 2]
    with pytest.raises(RunError, match="'x' cannot be made a BIGINT"):
        run((1, "x"))
    assert run((None, "x"), (1, None), (1, "1"), (4, "")) == [None, None, 1, 4]


def test_deep_nesting_does_not_explode(agree: Callable[..., None]) -> None:
    nested: Expression = AS_NUMBER
    for depth in range(40):
        nested = Case(((is_(depth + 10), A),), nested, BIGINT)
    agree(nested, SCHEMA, [(10, "x"), (49, "y"), (1, "5"), (2, "z")])
