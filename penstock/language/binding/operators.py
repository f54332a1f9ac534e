"""Operators that are functions in another dress: `RLIKE` and what other systems write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from penstock.errors import Span
from penstock.model.types import BOOLEAN, STRING
from penstock.plan.expressions import Call, Expression, Literal

if TYPE_CHECKING:
    from penstock.language.binding.expressions import ExpressionBinder

Binding: TypeAlias = Callable[["ExpressionBinder", exp.Expr, Span | None], Expression]


def _regexp(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
    operands = [binder.bind(syntax.this), binder.bind(syntax.expression)]
    if isinstance(syntax, exp.RegexpILike):
        operands.append(Literal("i", STRING))
    found = binder.call("regexp_like", operands, span)
    return Call("not", (found,), BOOLEAN, span=span) if syntax.args.get("negate") else found


OPERATORS: dict[type[exp.Expr], Binding] = {
    exp.RegexpLike: _regexp,
    exp.RegexpILike: _regexp,
}
