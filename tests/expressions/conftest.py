"""The oracle of the compiled expressions: the reference evaluator, row by row."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from penstock.errors import RunError
from penstock.expressions import evaluation
from penstock.expressions.compiler import compile_expression, compile_predicate
from penstock.expressions.evaluation import compile_alone
from penstock.model.types import BOOLEAN, EXACT, Field, Kind, Schema, Type
from penstock.model.values import RowForm, to_arrow, to_python
from penstock.plan.expressions import Expression

Rows = list[tuple[Any, ...]]
_original = evaluation._evaluator


def _without_negative_zeros(expression: Expression, schema: Schema) -> evaluation.Evaluator:
    """Python's decimals have a −0, which Arrow's do not; it shows when it becomes a text."""
    inner = _original(expression, schema)

    def value(values: tuple[Any, ...]) -> Any:
        found = inner(values)
        return abs(found) if isinstance(found, Decimal) and not found else found

    return value


def oracle(expression: Expression, schema: Schema, rows: Rows) -> list[Any]:
    """For each row its value, or a RunError."""
    with mock.patch.object(evaluation, "_evaluator", _without_negative_zeros):
        value_of = evaluation.evaluator(expression, schema)
    found: list[Any] = []
    for row in rows:
        try:
            found.append(value_of(row))
        except RunError as error:
            found.append(error)
    return found


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return type(left) is type(right) and left == right


_UNDER_NULLS: dict[Kind, Any] = {
    Kind.BOOLEAN: True,
    Kind.INT: -(2**31),
    Kind.BIGINT: -(2**63),
    Kind.DOUBLE: struct.unpack("<d", b"\1\0\0\0\0\0\xf0\x7f")[0],  # a NaN that NumPy warns of
    Kind.STRING: "1é",
    Kind.BINARY: b"\xff",
    Kind.DATE: 2**31 - 1,
    Kind.TIMESTAMP: 2**63 - 1,
    Kind.INTERVAL: 2**63 - 1,
}


def make_column(values: list[Any], sql_type: Type) -> pa.Array:
    """A column with something nasty under its NULLs, where usually there is 0."""
    if None not in values or sql_type.kind is Kind.NULL:
        return to_arrow(values, sql_type)
    end = Decimal(10**sql_type.precision - 1).scaleb(-sql_type.scale, EXACT)
    nasty = end if sql_type.kind is Kind.DECIMAL else _UNDER_NULLS[sql_type.kind]
    full = to_arrow([nasty if value is None else value for value in values], sql_type)
    validity = pa.array([value is not None for value in values]).buffers()[1]
    return pa.Array.from_buffers(full.type, len(full), [validity, *full.buffers()[1:]])


def make_batch(schema: Schema, rows: Rows, before: int = 0) -> pa.RecordBatch:
    """A batch of the rows; `before` so many others, which are sliced away."""
    padded = [*([rows[0]] * before if rows else []), *rows, *rows[:1]]
    columns = [
        make_column([row[position] for row in padded], field.type)
        for position, field in enumerate(schema)
    ]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    batch = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
    return batch.slice(before if rows else 0, len(rows))


def check_agreement(expression: Expression, schema: Schema, rows: Rows, before: int = 0) -> None:
    """The compiled expression and the reference give the same for all rows, or the same error."""
    compiled = compile_expression(expression, schema)
    expected = oracle(expression, schema, rows)
    errors = [outcome for outcome in expected if isinstance(outcome, RunError)]
    if errors:
        with pytest.raises(RunError) as caught:
            compiled(make_batch(schema, rows, before))
        assert str(caught.value) == str(errors[0])
        assert caught.value.span == errors[0].span
    good = [
        (row, outcome)
        for row, outcome in zip(rows, expected, strict=True)
        if not isinstance(outcome, RunError)
    ]
    batch = make_batch(schema, [row for row, _ in good], before)
    with mock.patch("penstock.expressions.compiler.evaluate_rows") as slow_road:
        column = compiled(batch)
    assert not slow_road.called, "a kernel failed although every row has a value"
    assert column.type == expression.type.arrow
    assert len(column) == batch.num_rows
    column.validate(full=True)
    for value, (row, wanted) in zip(to_python(column, expression.type), good, strict=True):
        assert same(value, wanted), f"{expression} of {row}: {value!r} instead of {wanted!r}"
    check_alone(expression, schema, rows, expected)
    if expression.type == BOOLEAN:
        mask = compile_predicate(expression, schema)(batch)
        assert mask.to_pylist() == [wanted is True for _, wanted in good]


def check_alone(expression: Expression, schema: Schema, rows: Rows, expected: list[Any]) -> None:
    """So does a tuple that comes alone, written as a column."""
    evaluate_alone = compile_alone(expression, schema)
    if evaluate_alone is None:
        return
    form = RowForm(Schema((Field("value", expression.type),)))
    for row, wanted in zip(rows, expected, strict=True):
        if isinstance(wanted, RunError):
            with pytest.raises(RunError) as caught:
                evaluate_alone(row)
            assert str(caught.value) == str(wanted)
            continue
        (found,) = form.values(form.record((evaluate_alone(row),)))
        assert same(found, wanted), f"{expression} of {row} alone: {found!r} not {wanted!r}"


@pytest.fixture(scope="session")
def agree() -> Callable[..., None]:
    return check_agreement


@pytest.fixture(scope="session")
def schema_of() -> Callable[..., Schema]:
    def make(*types: Type) -> Schema:
        return Schema(tuple(Field(f"c{i}", sql_type) for i, sql_type in enumerate(types)))

    return make
