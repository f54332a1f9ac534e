"""Bringing values to one type, and which casts there are."""

from __future__ import annotations

from penstock.errors import BindError
from penstock.language.binding.scalars.literals import text_as
from penstock.model.types import NULL, Kind, Type, common_type
from penstock.plan.expressions import Expression, Literal, cast_to


def alike(values: list[Expression], verb: str) -> tuple[Expression, ...]:
    """The values in one type.  A quoted text among times is read as a time."""
    shared = _shared([value.type for value in values if not _is_text(value)])
    if shared is not None and shared.kind in (Kind.TIMESTAMP, Kind.DATE, Kind.INTERVAL):
        values = [
            text_as(value.value, shared, value.span)
            if isinstance(value, Literal) and _is_text(value)
            else value
            for value in values
        ]
    shared = _shared([value.type for value in values])
    if shared is None:
        raise _unlike(values, verb)
    if shared.is_nested and verb == "compare":
        raise BindError(
            f"{shared.a} cannot be compared",
            span=values[0].span,
            hint="parts of it can: a[1], s.field, m['key'], or CAST(… AS STRING)",
        )
    return tuple(cast_to(value, shared) for value in values)


def _is_text(value: Expression) -> bool:
    return isinstance(value, Literal) and value.type.kind is Kind.STRING


def _shared(types: list[Type]) -> Type | None:
    """The type that all can be brought to; NULL for none at all."""
    shared: Type | None = NULL
    for each in types:
        shared = common_type(shared, each) if shared is not None else None
    return shared


def _unlike(values: list[Expression], verb: str) -> BindError:
    """The first value that does not go with the first."""
    first = next(value for value in values if value.type.kind is not Kind.NULL)
    other = next(
        (value for value in values if common_type(first.type, value.type) is None), values[-1]
    )
    return BindError(
        f"cannot {verb} {first.type.a} and {other.type.a}",
        span=other.span,
        expected=first.type.a,
        hint=_conversion(other.type, first.type),
    )


def _conversion(given: Type, wanted: Type) -> str | None:
    if castable(given, wanted):
        return f"CAST(… AS {wanted})"
    if given.is_integer and wanted.kind is Kind.TIMESTAMP:
        return "timestamp_seconds(…)"
    return None


def castable(given: Type, wanted: Type) -> bool:
    numberlike = {Kind.BOOLEAN, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE}
    times = {Kind.DATE, Kind.TIMESTAMP}
    if given.kind in numberlike and wanted.kind in numberlike:
        return True
    if given.kind in times and wanted.kind in times:
        return True
    if given.is_nested and given.kind is wanted.kind and len(given.parts) == len(wanted.parts):
        pairs = zip(given.parts, wanted.parts, strict=True)
        return all(one == other or castable(one, other) for (_, one), (_, other) in pairs)
    if wanted.is_nested:
        return False
    if wanted.kind is Kind.STRING:
        return given.kind is not Kind.INTERVAL
    return given.kind is Kind.STRING


def cast_null(expression: Expression, wanted: Type) -> Expression:
    return cast_to(expression, wanted) if expression.type.kind is Kind.NULL else expression
