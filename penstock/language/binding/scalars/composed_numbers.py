"""Functions on numbers by the names of other systems, made of functions that there are."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import BindError
from penstock.functions.operators import arithmetic
from penstock.language.binding.scalars.calls import called, takes
from penstock.language.binding.scalars.units import unit_of
from penstock.model.types import BIGINT, BOOLEAN, DOUBLE, INT, Kind
from penstock.plan.expressions import Call, Case, Expression, Literal, cast_to


def _combined(operator: str, left: Expression, right: Expression) -> Expression:
    types = arithmetic(operator, left.type, right.type)
    return Call(operator, (cast_to(left, types.left), cast_to(right, types.right)), types.result)


def _pmod(given: list[Expression]) -> Expression:
    """The rest, and if it is negative, one divisor more."""
    if len(given) != 2 or not all(each.type.is_number for each in given):
        raise takes("pmod", "number, number")
    rest = _combined("mod", *given)
    more = _combined("mod", _combined("add", rest, given[1]), given[1])
    negative = Call("lt", (rest, cast_to(Literal(0, INT), rest.type)), BOOLEAN)
    return Case(((negative, cast_to(more, rest.type)),), rest, rest.type)


def _truncated(given: list[Expression]) -> Expression:
    """Towards zero; of times, what Spark's `trunc(time, 'month')` is."""
    if len(given) == 2 and given[0].type.kind in (Kind.DATE, Kind.TIMESTAMP):
        raise BindError(
            "trunc of a time gives a DATE in Spark, and here it is called otherwise",
            hint="date_trunc('month', time)",
        )
    if len(given) == 2 and given[1].type.kind in (Kind.DATE, Kind.TIMESTAMP):
        return called("date_trunc", [unit_of("date_trunc", given[0]), given[1]])
    if len(given) == 2 and isinstance(given[1], Literal) and given[1].value == 0:
        given = given[:1]
    if len(given) != 1 or not given[0].type.is_number:
        raise BindError(
            "trunc and truncate cut off all places of a number",
            expected="trunc(number)",
            hint="round(number, 2), which rounds",
        )
    (number,) = given
    if number.type.is_integer:
        return number
    up, down = called("ceil", given), called("floor", given)
    below = Call("lt", (number, cast_to(Literal(0, INT), number.type)), BOOLEAN)
    return Case(((below, up),), down, down.type)


def _over_one(function: str, name: str) -> Callable[[list[Expression]], Expression]:
    """One over the function; infinite where that is zero."""

    def build(given: list[Expression]) -> Expression:
        inner = called(function, given, name)
        return called("power", [inner, Literal(-1.0, DOUBLE)])

    return build


def _quotient(name: str) -> Callable[[list[Expression]], Expression]:
    """NULL if the divisor is zero, which `/` and DIV are anyway."""
    operator = "div" if name == "div" else "divide"

    def build(given: list[Expression]) -> Expression:
        if len(given) != 2:
            raise takes(name, "number, number")
        return _combined(operator, *given)

    return build


def _bit(name: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 2:
            raise takes(name, "whole number, place")
        moved = called("shiftright", given, name)
        return called("bitand", [moved, Literal(1, BIGINT)])

    return build


def _positive(given: list[Expression]) -> Expression:
    if len(given) != 1 or not given[0].type.is_number:
        raise takes("positive", "number")
    return given[0]


NUMBERS: dict[str, Callable[[list[Expression]], Expression]] = {
    "pmod": _pmod,
    "trunc": _truncated,
    "truncate": _truncated,
    "cot": _over_one("tan", "cot"),
    "sec": _over_one("cos", "sec"),
    "csc": _over_one("sin", "csc"),
    "try_divide": _quotient("try_divide"),
    "bit_get": _bit("bit_get"),
    "getbit": _bit("getbit"),
    "positive": _positive,
}
