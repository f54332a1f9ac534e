"""Expressions over what a node makes, said over what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.plan.expressions import Call, Case, Cast, Column, Expression
from penstock.plan.nodes.stateless import Project


def below(expression: Expression, project: Project) -> Expression:
    """An expression over the columns that a projection makes, over the columns of its input.

    before: q.u + 1, over Project t * 2 AS u
    after:  s.t * 2 + 1
    """

    def made(column: Column) -> Expression:
        return project.columns[column.position(project.schema)].expression

    return substituted(expression, made)


def substituted(expression: Expression, by: Callable[[Column], Expression]) -> Expression:
    """The expression with something else in the place of its columns."""
    if isinstance(expression, Column):
        return by(expression)
    return with_children(expression, lambda each: substituted(each, by))


def with_children(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression over changed operands."""
    match expression:
        case Call():
            return replace(expression, arguments=tuple(map(change, expression.arguments)))
        case Cast():
            return replace(expression, operand=change(expression.operand))
        case Case():
            branches = tuple((change(when), change(then)) for when, then in expression.branches)
            return replace(expression, branches=branches, otherwise=change(expression.otherwise))
    return expression
