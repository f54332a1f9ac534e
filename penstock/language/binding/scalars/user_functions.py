"""Calls of functions that the user has registered."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import BindError, Span
from penstock.functions.user_functions import UserFunction
from penstock.model.types import STRING, Kind, Type, common_type
from penstock.plan.expressions import Call, Expression, cast_to


def user_call(function: UserFunction, given: list[Expression], span: Span | None) -> Call:
    wanted = function.arguments
    if wanted is None:
        wanted = tuple(STRING if each.type.kind is Kind.NULL else each.type for each in given)
    if len(given) != len(wanted):
        raise BindError(
            f"{function.name} does not take {len(given)} argument{'s' * (len(given) != 1)}",
            span=span,
            expected=f"{function.name}({', '.join(map(str, wanted))})",
        )
    if function.typed is not None:
        returns = function.typed(wanted)
        function = replace(function, arguments=wanted, returns=returns, typed=None)
    for number, (each, sql_type) in enumerate(zip(given, wanted, strict=True), start=1):
        if not _fits(each.type, sql_type):
            raise BindError(
                f"argument {number} of {function.name} is {each.type.a}",
                span=each.span or span,
                expected=sql_type.a,
                hint=f"CAST(… AS {sql_type})",
            )
    arguments = tuple(cast_to(each, to) for each, to in zip(given, wanted, strict=True))
    return Call(function.name, arguments, function.returns, function, span=span)


def _fits(given: Type, wanted: Type) -> bool:
    return common_type(given, wanted) == wanted
