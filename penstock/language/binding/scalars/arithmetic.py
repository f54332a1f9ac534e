"""Chains of `+ - * / DIV %`, in which a number of calendar months may stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.errors import BindError
from penstock.functions.operators import arithmetic
from penstock.language.binding.scalars.literals import span_of
from penstock.language.limits import MAX_CHAIN
from penstock.model.types import BIGINT, Kind
from penstock.plan.expressions import Call, Expression, Literal, cast_to

if TYPE_CHECKING:
    from penstock.language.binding.scalars.expressions import ExpressionBinder

ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "div",
    exp.Mod: "mod",
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def chain(binder: ExpressionBinder, syntax: exp.Expr) -> Expression:
    """A chain of operators, taken from the left without recursion."""
    operations: list[exp.Expr] = []
    while type(syntax) in ARITHMETIC:
        operations.append(syntax)
        syntax = syntax.this
    if len(operations) > MAX_CHAIN:
        raise BindError(
            f"{len(operations)} operators in a row",
            span=span_of(operations[0]),
            expected=f"up to {MAX_CHAIN}",
        )
    months = _months(syntax)
    if months is not None and isinstance(operations[-1], exp.Add):  # INTERVAL 1 MONTH + ts
        last = operations.pop()
        left = _moved(binder.bind(last.expression), months, last)
    else:
        left = binder.bind(syntax)
    for operation in reversed(operations):
        left = _combined(binder, operation, left)
    return left


def _combined(binder: ExpressionBinder, syntax: exp.Expr, left: Expression) -> Expression:
    months = _months(syntax.expression)
    if months is not None and isinstance(syntax, exp.Add | exp.Sub):
        return _moved(left, months if isinstance(syntax, exp.Add) else -months, syntax)
    right, name = binder.bind(syntax.expression), ARITHMETIC[type(syntax)]
    try:
        types = arithmetic(name, left.type, right.type)
    except BindError as error:
        error.span = span_of(syntax)
        raise
    operands = (cast_to(left, types.left), cast_to(right, types.right))
    return Call(name, operands, types.result, span=span_of(syntax))


def _months(syntax: exp.Expr) -> int | None:
    """Of INTERVAL 1 MONTH, QUARTER or YEAR, which have no length of their own."""
    if not isinstance(syntax, exp.Interval) or syntax.args.get("unit") is None:
        return None
    unit = syntax.args["unit"].name.upper().removesuffix("S")
    amount = syntax.this.name
    if unit not in _MONTHS or not amount.lstrip("-").isdigit() or len(amount) > 9:
        return None
    return int(amount) * _MONTHS[unit]


def _moved(time: Expression, months: int, syntax: exp.Expr) -> Expression:
    if time.type.kind not in (Kind.TIMESTAMP, Kind.DATE):
        raise BindError(f"months are added to times, not to {time.type.a}", span=span_of(syntax))
    return Call("add_months", (time, Literal(months, BIGINT)), time.type, span=span_of(syntax))
