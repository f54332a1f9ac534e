"""Expressions on a tuple that comes alone: plain values, by the evaluator that kernels agree with.

For one tuple that takes a fraction of what it takes to ask Arrow for it.
"""

from __future__ import annotations

from penstock.model.schema import Schema
from penstock.model.types import NESTED, Kind
from penstock.plan.expressions import Call, Column, Expression, walk
from penstock.scalars.evaluate import Evaluator, evaluator

_IN_COLUMNS = (Kind.DECIMAL, *NESTED)


def compile_alone(expression: Expression, schema: Schema) -> Evaluator | None:
    """A function from a tuple of the schema to the value of the expression.

    None where columns have to be made: decimals have two zeros in Python and one in Arrow, which
    shows in texts, and functions of users take columns."""
    if not isinstance(expression, Column) and any(map(_needs_columns, walk(expression))):
        return None
    return evaluator(expression, schema)


def _needs_columns(expression: Expression) -> bool:
    by_user = isinstance(expression, Call) and expression.user is not None
    return by_user or expression.type.kind in _IN_COLUMNS
