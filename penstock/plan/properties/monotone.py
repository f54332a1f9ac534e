"""Which expressions pass progress on: those that never go down while their columns go up."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from penstock.functions.scalar import SCALARS
from penstock.model.calendar import time_zone
from penstock.model.types import Kind
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal

_PROGRESSING_KINDS = (Kind.TIMESTAMP, Kind.DATE, Kind.INT, Kind.BIGINT, Kind.DECIMAL)


# What clocks show is put back at the end of summer time; their bounds allow for that.
AT_TIME_ZONE = ("at_time_zone", "lowest_at_time_zone", "highest_at_time_zone")


def rises_with(expression: Expression) -> tuple[Column, ...]:
    """The columns that the expression never goes down with; none if it may go down.

    `ts`, `ts + INTERVAL 1 MINUTE`, `date_trunc('hour', ts)`, `CAST(ts AS DATE)` rise with `ts`,
    and `greatest(a.ts, b.ts)` with both.  So does `ts AT TIME ZONE 'Europe/Berlin'`, but for the
    hour that is there twice: bounds are lower by as much before it (see `scalars/bounds.py`).
    """
    if isinstance(expression, Column):
        return (expression,) if expression.type.kind in _PROGRESSING_KINDS else ()
    risen = [rises_with(operand) for operand in rising_operands(expression)]
    return tuple(column for each in risen for column in each) if all(risen) else ()


def rising_operands(expression: Expression) -> tuple[Expression, ...]:
    """The operands that the expression never goes down with, all others being constant; none if it
    may go down."""
    if expression.type.kind not in _PROGRESSING_KINDS:
        return ()
    match expression:
        case Cast(operand, _, False) if operand.type.kind in _PROGRESSING_KINDS:
            return (operand,)
        case Call("add" | "subtract", (inner, constant)) if written(constant) is not None:
            return (inner,)
        case Call("add", (constant, inner)) if written(constant) is not None:
            return (inner,)
        case Call("multiply", (factor, inner)) if _positive(factor):
            return (inner,)
        case Call("multiply", (inner, factor)) if _positive(factor):
            return (inner,)
        case Call("add_months", (inner, months)) if expression.type.kind is Kind.DATE:
            return (inner,) if written(months) is not None else ()
        case Call("greatest" | "least", arguments):
            return arguments
        case Call("promised_as", (_, lower)):
            return (lower,)
        case Call(name, (inner, zone)) if name in AT_TIME_ZONE and _is_time_zone(zone):
            return (inner,)
        case Call("time_bucket" | "number_bucket", (width, inner, *origin)) if _positive(width):
            return (inner,) if all(written(each) is not None for each in origin) else ()
        case Call(name, arguments, _, None) if name in SCALARS and SCALARS[name].monotone:
            rest = all(written(argument) is not None for argument in arguments[:-1])
            return arguments[-1:] if rest else ()
        case _:
            return ()


def written(constant: Expression) -> Any:
    """The value of a literal as it was written, also where the types of the operands made another
    type of it: `1` in `price + 1`.  None if it is none, or NULL."""
    while isinstance(constant, Cast) and not constant.tries:
        constant = constant.operand
    return constant.value if isinstance(constant, Literal) else None


def is_steady(expression: Expression) -> bool:
    """Whether values never go down where what they rise with goes up: only bounds do for windows
    of other lengths than the earliest, and for what clocks show."""
    if isinstance(expression, Call) and expression.function in ("promised_as", *AT_TIME_ZONE):
        return False
    return all(is_steady(each) for each in rising_operands(expression))


def _is_time_zone(zone: Expression) -> bool:
    name = written(zone)
    return isinstance(name, str) and time_zone(name) is not None


def _positive(factor: Expression) -> bool:
    value = written(factor)
    return isinstance(value, int | float | Decimal) and value > 0
