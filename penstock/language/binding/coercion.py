"""Bringing values to one type, and which casts there are."""

from __future__ import annotations

from penstock.errors import BindError, Span
from penstock.language.binding.literals import text_as
from penstock.model.types import NULL, Kind, Type, common_type
from penstock.plan.expressions import Expression, Literal, cast_to


def alike(values: list[Expression], verb: str) -> tuple[Expression, ...]:
    """The values in one type.  A quoted text among times is read as a time."""
    shared = NULL
    for value in values:
        if isinstance(value, Literal) and value.type.kind is Kind.STRING:
            continue
        shared = _common(shared, value.type, value.span, verb)
    converted: list[Expression] = []
    times = (Kind.TIMESTAMP, Kind.DATE, Kind.INTERVAL)
    for value in values:
        if isinstance(value, Literal) and value.type.kind is Kind.STRING and shared.kind in times:
            converted.append(text_as(value.value, shared, value.span))
        else:
            shared = _common(shared, value.type, value.span, verb)
            converted.append(value)
    return tuple(cast_to(value, shared) for value in converted)


def _common(one: Type, other: Type, span: Span | None, verb: str) -> Type:
    both = common_type(one, other)
    if both is None:
        raise BindError(
            f"cannot {verb} {one.a} and {other.a}",
            span=span,
            expected=f"{one.a}",
            hint=f"CAST(… AS {one})",
        )
    return both


def castable(given: Type, wanted: Type) -> bool:
    numberlike = {Kind.BOOLEAN, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE}
    times = {Kind.DATE, Kind.TIMESTAMP}
    if given.kind in numberlike and wanted.kind in numberlike:
        return True
    if given.kind in times and wanted.kind in times:
        return True
    if wanted.kind is Kind.STRING:
        return given.kind is not Kind.INTERVAL
    return given.kind is Kind.STRING


def cast_null(expression: Expression, wanted: Type) -> Expression:
    return cast_to(expression, wanted) if expression.type.kind is Kind.NULL else expression
