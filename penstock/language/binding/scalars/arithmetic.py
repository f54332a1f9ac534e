"""Chains of `+ - * / DIV %`, in which a number of calendar months may stand."""

from __future__ import annotations

from collections.abc import Iterator
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
    operations.reverse()
    known, done = binder.known_start(prefixes(binder.below, syntax, operations))
    if known is None:
        (known, done), *_ = prefixes(binder, syntax, operations)
    for operation in operations[done:]:
        known = _combined(binder, operation, known)
    return known


def prefixes(
    binder: ExpressionBinder | None, first: exp.Expr, operations: list[exp.Expr]
) -> Iterator[tuple[Expression, int]]:
    """What a chain begins with, and how many of its operations that contains, one by one."""
    if binder is None:
        return
    months = _months(first)
    if months is not None and isinstance(operations[0], exp.Add):  # INTERVAL 1 MONTH + ts
        left, done = _moved(binder.bind(operations[0].expression), months, operations[0]), 1
    else:
        left, done = binder.bind(first), 0
    yield left, done
    for done, operation in enumerate(operations[done:-1], start=done + 1):
        left = _combined(binder, operation, left)
        yield left, done


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
