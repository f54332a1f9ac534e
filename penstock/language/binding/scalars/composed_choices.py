"""Choices among values by the names of other systems: `nvl2`, `decode`, `isnan` and others."""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.language.binding.scalars.calls import called, takes
from penstock.language.binding.scalars.coercion import alike
from penstock.model.types import BOOLEAN, DOUBLE, INT
from penstock.plan.expressions import Call, Case, Expression, Literal, cast_to


def _is_null(value: Expression) -> Call:
    return Call("is_null", (value,), BOOLEAN)


def _same(left: Expression, right: Expression) -> Call:
    distinct = Call("is_distinct", tuple(alike([left, right], "compare")), BOOLEAN)
    return Call("not", (distinct,), BOOLEAN)


def _on_null(negated: bool) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 1:
            raise takes("isnotnull" if negated else "isnull", "value")
        found = _is_null(given[0])
        return Call("not", (found,), BOOLEAN) if negated else found

    return build


def _nvl2(given: list[Expression]) -> Expression:
    if len(given) != 3:
        raise takes("nvl2", "value, if it is not NULL, if it is")
    return called("if", [_is_null(given[0]), given[2], given[1]], "nvl2")


def _equal_null(given: list[Expression]) -> Expression:
    if len(given) != 2:
        raise takes("equal_null", "value, value")
    return _same(given[0], given[1])


def _decode(given: list[Expression]) -> Expression:
    if len(given) < 3:
        raise takes("decode", "value, search, result, … [, default]")
    value, *rest = given
    otherwise = [rest[-1]] if len(rest) % 2 else []
    pairs = rest[:-1] if otherwise else rest
    results = alike([*pairs[1::2], *otherwise], "put")
    last = results[-1] if otherwise else Literal(None, results[0].type)
    branches = tuple(
        (_same(value, search), result)
        for search, result in zip(pairs[::2], results[: len(pairs) // 2], strict=True)
    )
    return Case(branches, last, last.type)


def _zero(name: str, function: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 1 or not (given[0].type.is_number or isinstance(given[0], Literal)):
            raise takes(name, "number")
        return called(function, [given[0], Literal(0, INT)], name)

    return build


def _of_double(
    name: str, test: Callable[[Expression], Expression]
) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 1 or not given[0].type.is_number:
            raise takes(name, "number")
        return test(cast_to(given[0], DOUBLE))

    return build


def _isnan(value: Expression) -> Expression:
    return Call("ne", (value, value), BOOLEAN)  # which nothing else is


def _size(comparison: str) -> Callable[[Expression], Expression]:
    infinite = Literal(math.inf, DOUBLE)
    return lambda value: Call(comparison, (called("abs", [value]), infinite), BOOLEAN)


def _nanvl(given: list[Expression]) -> Expression:
    if len(given) != 2 or not all(each.type.is_number for each in given):
        raise takes("nanvl", "number, if it is NaN")
    value, other = (cast_to(each, DOUBLE) for each in given)
    return Case(((_isnan(value), other),), value, DOUBLE)


CHOICES: dict[str, Callable[[list[Expression]], Expression]] = {
    "isnull": _on_null(negated=False),
    "isnotnull": _on_null(negated=True),
    "nvl2": _nvl2,
    "equal_null": _equal_null,
    "decode": _decode,
    "zeroifnull": _zero("zeroifnull", "coalesce"),
    "nullifzero": _zero("nullifzero", "nullif"),
    "isnan": _of_double("isnan", _isnan),
    "isinf": _of_double("isinf", _size("eq")),
    "isfinite": _of_double("isfinite", _size("lt")),
    "nanvl": _nanvl,
}
