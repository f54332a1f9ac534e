"""Expressions over what a node makes, said over what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.plan.expressions import Call, Case, Cast, Column, Expression
from penstock.plan.stateless import Project


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

    def changed(each: Expression) -> Expression:
        return substituted(each, by)

    match expression:
        case Column():
            return by(expression)
        case Call():
            return replace(expression, arguments=tuple(map(changed, expression.arguments)))
        case Cast():
            return replace(expression, operand=changed(expression.operand))
        case Case():
            branches = tuple((changed(when), changed(then)) for when, then in expression.branches)
            return replace(expression, branches=branches, otherwise=changed(expression.otherwise))
    return expression
