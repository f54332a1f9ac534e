"""The slow road: the reference evaluator, one row after the other.

Two reasons lead here.  A call has no columnar kernel (an unusual function, a pattern that is not
a constant): then that call alone goes row by row.  Or a kernel failed: then the whole expression
does, because the reference knows the tuple to blame and how to put it; and should it find an
answer after all, that is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.expressions.node import Kernel, length
from penstock.model.plain_values import to_arrow, to_python
from penstock.model.schema import Field, Schema
from penstock.model.types import NESTED, Kind
from penstock.model.value_limits import check_together, size_of
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal
from penstock.scalars.evaluate import evaluator


def by_rows(expression: Call | Cast) -> Kernel:
    """The kernel of one call; its arguments that are literals stay where they are.

    >>> from penstock.model.types import STRING
    >>> by_rows(Call("reverse", (Column("t", STRING),), STRING))(pa.array(["ab", None])).to_pylist()
    ['ba', None]
    """
    operands = expression.arguments if isinstance(expression, Call) else (expression.operand,)
    inner: list[Expression] = []
    fields: list[Field] = []
    for operand in operands:
        if not isinstance(operand, Literal):
            fields.append(Field(f"argument {len(inner) + 1}", operand.type))
            operand = Column.of(fields[-1])
        inner.append(operand)
    schema = Schema(tuple(fields))
    if isinstance(expression, Call):
        over_columns: Expression = replace(expression, arguments=tuple(inner))
    else:
        over_columns = replace(expression, operand=inner[0])

    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        columns = [each for each in data if isinstance(each, pa.Array)]
        return evaluate_rows(over_columns, schema, columns, length(data))

    return kernel


def evaluate_rows(
    expression: Expression, schema: Schema, columns: Sequence[pa.Array], count: int
) -> pa.Array:
    """The column of an expression's values, or the error of the first row that has none."""
    plain = [to_python(each, field.type) for each, field in zip(columns, schema, strict=True)]
    rows = zip(*plain, strict=True) if plain else iter([()] * count)
    evaluate = evaluator(expression, schema)
    if expression.type.kind not in (Kind.STRING, Kind.BINARY, *NESTED):
        return to_arrow([evaluate(row) for row in rows], expression.type)
    values, size = [], 0
    for row in rows:
        values.append(evaluate(row))
        size += size_of(values[-1], expression.type)
        check_together(size)
    return to_arrow(values, expression.type)


def constant(expression: Expression) -> Any:
    """The value of an expression without columns."""
    column = evaluate_rows(expression, Schema(()), [], 1)
    return to_python(column, expression.type)[0]
