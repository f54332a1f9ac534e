"""The bound on an expression that rises with progressing columns, from the bounds on those.

A bound is no tuple, so it may lie where the expression has no value: the clock has promised more
than an INT can say, and no tuple ever came so far.  There it stays at the end of what the type can
hold, which promises no more than is true: whatever tuple comes has a value of that type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from penstock.errors import RunError
from penstock.model.domain import Domain
from penstock.model.schema import Field, Schema
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, Kind, Type
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal
from penstock.plan.properties.monotone import rising_operands, written
from penstock.plan.substitution import with_children
from penstock.scalars.evaluate import evaluator

Bounding: TypeAlias = Callable[[Sequence[Any]], Any]


def bounding(expression: Expression, columns: Sequence[Column]) -> Bounding:
    """A function from values of the columns, which need not fit their types, to the value that the
    expression does not fall below while none of the columns falls below its own.

    >>> from penstock.model.types import BIGINT, INT
    >>> t = Column("t", BIGINT)
    >>> [bounding(Cast(t, INT), [t])([value]) for value in (-(2**70), 7, 2**40)]
    [-2147483648, 7, 2147483647]
    """
    return _fitting(promised(expression), columns)


def reached(expression: Expression, columns: Sequence[Column]) -> Bounding:
    """A function from the highest values of the columns to how far the expression has come."""
    return _fitting(reaching(expression), columns)


def _fitting(expression: Expression, columns: Sequence[Column]) -> Bounding:
    domain, bound = Domain(expression.type), _bounding(expression, columns)

    def with_tick(values: Sequence[Any]) -> Any:
        value = bound(values)
        tick = domain.tick(value)
        return value if INT64_MIN <= tick <= INT64_MAX else domain.value(_nearest(tick))

    return with_tick


def promised(expression: Expression) -> Expression:
    """What the expression promises, which may be less than it is.

    before: promised_as(t + 10, t)
    after:  t

    So tuples that are copied can all promise what the earliest copy does: one that is too late for
    a window is not late for those that follow.

    before: at_time_zone(t, 'Europe/Berlin')
    after:  lowest_at_time_zone(t, 'Europe/Berlin')

    So no local time falls below its bound when clocks are put back.
    """
    match expression:
        case Call("promised_as", (_, lower)):
            return promised(lower)
        case Call("at_time_zone", (inner, zone)):
            return Call("lowest_at_time_zone", (promised(inner), zone), expression.type)
    return with_children(expression, promised)


def reaching(expression: Expression) -> Expression:
    """What the expression has come to at the most, where the columns have come to their highest
    values.

    before: at_time_zone(t, 'Europe/Berlin')
    after:  highest_at_time_zone(t, 'Europe/Berlin')
    """
    match expression:
        case Call("promised_as", (_, lower)):
            return reaching(lower)
        case Call("at_time_zone", (inner, zone)):
            return Call("highest_at_time_zone", (reaching(inner), zone), expression.type)
    return with_children(expression, reaching)


def shift_of(expression: Expression) -> int | None:
    """By how many ticks the bound on an expression lies above that on its only column, if it does
    so wherever the column is."""
    if not isinstance(expression, Call) or expression.function not in ("add", "subtract"):
        return None
    match expression.arguments:
        case (Column(type=column_type), Literal(value=int() as by)):
            if column_type.kind is Kind.BIGINT and expression.type.kind is Kind.BIGINT:
                return by if expression.function == "add" else -by
    return None


def _nearest(tick: int) -> int:
    return min(max(tick, INT64_MIN), INT64_MAX)


def _bounding(expression: Expression, columns: Sequence[Column]) -> Bounding:
    if isinstance(expression, Column):
        place = list(columns).index(expression)
        low, high = _limits(expression.type)
        return lambda values: min(max(values[place], low), high)
    operands = rising_operands(expression)
    inner = [_bounding(operand, columns) for operand in operands]
    step = _step(expression, operands)
    return lambda values: step([each(values) for each in inner])


def _step(expression: Expression, operands: Sequence[Expression]) -> Bounding:
    """The expression as a function of its operands alone."""
    assert isinstance(expression, Call | Cast)
    fields = [Field(f"operand {i}", each.type) for i, each in enumerate(operands)]
    names = {id(each): Column.of(field) for each, field in zip(operands, fields, strict=True)}
    if isinstance(expression, Cast):
        of_operands: Expression = Cast(names[id(expression.operand)], expression.type)
    else:
        arguments = tuple(names.get(id(each), each) for each in expression.arguments)
        of_operands = Call(expression.function, arguments, expression.type)
    evaluate = evaluator(of_operands, Schema(tuple(fields)))
    low, high = _limits(expression.type)

    def step(values: Sequence[Any]) -> Any:
        try:
            return evaluate(tuple(values))
        except RunError:
            return high if _upward(expression, operands[0], values[0]) else low

    return step


def _upward(expression: Expression, operand: Expression, value: Any) -> bool:
    """On which side the expression leaves its type.  A sum does so where its constant leads, all
    others by making a number of the same sign too large."""
    if isinstance(expression, Call) and expression.function in ("add", "subtract"):
        constant = next(written(each) for each in expression.arguments if each is not operand)
        if isinstance(constant, int | float | Decimal):
            return (constant > 0) == (expression.function == "add")
    return bool(value > 0)


def _limits(sql_type: Type) -> tuple[Any, Any]:
    """The least and the greatest value of a type."""
    match sql_type.kind:
        case Kind.DECIMAL:
            most = Domain(sql_type).value(10**sql_type.precision - 1)
            return EXACT.minus(most), most
        case Kind.INT | Kind.DATE:
            return -(2**31), 2**31 - 1
        case _:
            return INT64_MIN, INT64_MAX
