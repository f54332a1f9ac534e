"""Which expressions pass progress on: those that never go down while their columns go up."""

from __future__ import annotations

from penstock.functions.scalar import SCALARS
from penstock.model.types import Kind
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal

_PROGRESSING_KINDS = (Kind.TIMESTAMP, Kind.DATE, Kind.INT, Kind.BIGINT, Kind.DECIMAL)


def rises_with(expression: Expression) -> tuple[Column, ...]:
    """The columns that the expression never goes down with; none if it may go down.

    `ts`, `ts + INTERVAL 1 MINUTE`, `date_trunc('hour', ts)`, `CAST(ts AS DATE)` rise with `ts`,
    and `greatest(a.ts, b.ts)` with both.
    """
    if expression.type.kind not in _PROGRESSING_KINDS:
        return ()
    match expression:
        case Column():
            return (expression,)
        case Cast(operand, _, False) if operand.type.kind in _PROGRESSING_KINDS:
            return rises_with(operand)
        case Call("add", (Literal(value), inner)) | Call(
            "add" | "subtract", (inner, Literal(value))
        ) if value is not None:
            return rises_with(inner)
        case Call("multiply", (Literal(factor), inner)) | Call(
            "multiply", (inner, Literal(factor))
        ) if factor is not None and factor > 0:
            return rises_with(inner)
        case Call("greatest" | "least", arguments):
            risen = [rises_with(argument) for argument in arguments]
            return tuple(column for each in risen for column in each) if all(risen) else ()
        case Call(name, arguments) if name in SCALARS and SCALARS[name].monotone:
            constant = all(
                isinstance(argument, Literal) and argument.value is not None
                for argument in arguments[:-1]
            )
            return rises_with(arguments[-1]) if constant else ()
        case _:
            return ()
