"""Chains of `+ - * / DIV %`, in which a number of calendar months or days may stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.errors import BindError
from penstock.functions.operators import arithmetic
from penstock.language.binding.scalars.literals import span_of
from penstock.language.limits import MAX_CHAIN
from penstock.model.types import BIGINT, DATE, Kind
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
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}  # which have no length of their own
_DAYS = {"DAY": 1, "WEEK": 7}


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
    left, done = None, 1
    if isinstance(first, exp.Interval) and isinstance(operations[0], exp.Add):  # INTERVAL … + ts
        left = _later(binder.bind(operations[0].expression), first, operations[0])
    if left is None:
        left, done = binder.bind(first), 0
    yield left, done
    for place in range(done, len(operations) - 1):
        left = _combined(binder, operations[place], left)
        yield left, place + 1


def _combined(binder: ExpressionBinder, syntax: exp.Expr, left: Expression) -> Expression:
    if isinstance(syntax, exp.Add | exp.Sub):
        moved = _later(left, syntax.expression, syntax)
        if moved is not None:
            return moved
    right, name = binder.bind(syntax.expression), ARITHMETIC[type(syntax)]
    try:
        types = arithmetic(name, left.type, right.type)
    except BindError as error:
        error.span = span_of(syntax)
        raise
    operands = (cast_to(left, types.left), cast_to(right, types.right))
    return Call(name, operands, types.result, span=span_of(syntax))


def _later(time: Expression, syntax: exp.Expr, operation: exp.Expr) -> Expression | None:
    """A time moved by a constant that is not just a length: by calendar months, and a DATE by days,
    which leave it one."""
    sign = -1 if isinstance(operation, exp.Sub) else 1
    months = _count(syntax, _MONTHS)
    if months is not None:
        return _moved(time, sign * months, operation)
    days = _count(syntax, _DAYS) if time.type.kind is Kind.DATE else None
    if days is None:
        return None
    return Call("add", (time, Literal(sign * days, BIGINT)), DATE, span=span_of(operation))


def _count(syntax: exp.Expr, units: dict[str, int]) -> int | None:
    """Of INTERVAL 2 WEEKS, 14 days."""
    if not isinstance(syntax, exp.Interval) or syntax.args.get("unit") is None:
        return None
    unit = syntax.args["unit"].name.upper().removesuffix("S")
    amount = syntax.this.name
    if unit not in units or not amount.lstrip("-").isdigit() or len(amount) > 9:
        return None
    return int(amount) * units[unit]


def _moved(time: Expression, months: int, syntax: exp.Expr) -> Expression:
    if time.type.kind not in (Kind.TIMESTAMP, Kind.DATE):
        raise BindError(f"months are added to times, not to {time.type.a}", span=span_of(syntax))
    return Call("add_months", (time, Literal(months, BIGINT)), time.type, span=span_of(syntax))
