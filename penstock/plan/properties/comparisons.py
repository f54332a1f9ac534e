"""Comparisons of something with constants: how, what, and the constants."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.model.types import Kind
from penstock.plan.expressions import COMPARISONS, Call, Expression, Literal, conjuncts

ORDERED = (Kind.INT, Kind.BIGINT, Kind.DATE, Kind.TIMESTAMP, Kind.DOUBLE)
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class Comparison(NamedTuple):
    function: str  # "eq" also for one of several constants
    value: Expression
    constants: list[Any]


def comparison(condition: Expression) -> Comparison | None:
    """The comparison that a condition is, if it is one; `x IN (1, 2)` is one with two constants."""
    if not isinstance(condition, Call):
        return None
    first, *others = condition.arguments
    function = condition.function
    if function in COMPARISONS and isinstance(first, Literal):
        first, others, function = others[0], [first], _MIRRORED.get(function, function)
    if function == "in":
        function = "eq"
    elif function not in COMPARISONS:
        return None
    constants = [each.value for each in others if isinstance(each, Literal)]
    if isinstance(first, Literal) or len(constants) < len(others):
        return None
    if any(each is None or each != each for each in constants):
        return None
    return Comparison(function, first, constants)


class BetweenConstants(NamedTuple):
    """A value lies between two others, which are possible themselves; None: there is no end."""

    value: Expression
    low: Any
    high: Any


def needed_for(predicate: Expression) -> BetweenConstants | None:
    """What a tuple must have at least to pass a filter; rows without a value do not, and of NaN
    nothing is said.

    >>> from penstock.model.types import BIGINT, BOOLEAN
    >>> from penstock.plan.expressions import Column
    >>> x = Column("x", BIGINT)
    >>> above = Call("gt", (x, Literal(3, BIGINT)), BOOLEAN)
    >>> below = Call("lt", (x, Literal(9, BIGINT)), BOOLEAN)
    >>> found = needed_for(Call("and", (above, below), BOOLEAN))
    >>> found.low, found.high
    (4, 8)
    """
    found: dict[Expression, BetweenConstants] = {}
    for each in conjuncts(predicate):
        within = _within(each)
        if within is not None:
            known = found.get(within.value)
            found[within.value] = within if known is None else _both(known, within)
    return max(found.values(), key=_ends, default=None)


def _within(condition: Expression) -> BetweenConstants | None:
    compared = comparison(condition)
    if compared is None or not compared.constants:
        return None
    function, value, constants = compared
    if value.type.kind is Kind.STRING:
        return BetweenConstants(value, min(constants), max(constants)) if function == "eq" else None
    if value.type.kind not in ORDERED:
        return None
    step = 0 if value.type.kind is Kind.DOUBLE else 1
    match function:
        case "eq":
            return BetweenConstants(value, min(constants), max(constants))
        case "lt" | "le":
            return BetweenConstants(value, None, constants[0] - (step if function == "lt" else 0))
        case "gt" | "ge":
            return BetweenConstants(value, constants[0] + (step if function == "gt" else 0), None)
        case _:
            return None


def _both(one: BetweenConstants, other: BetweenConstants) -> BetweenConstants:
    lows = [each.low for each in (one, other) if each.low is not None]
    highs = [each.high for each in (one, other) if each.high is not None]
    return BetweenConstants(one.value, max(lows, default=None), min(highs, default=None))


def _ends(within: BetweenConstants) -> int:
    """How much it says: a single value more than a range, and that more than half of one."""
    return sum(each is not None for each in within[1:]) + int(within.low == within.high)
