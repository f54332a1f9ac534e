"""STRUCTs that are put together: `struct(a, b AS c)`, `named_struct('a', 1)`, `ROW(a, b)`,
`{'a': 1}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.errors import BindError, PlanError, Span
from penstock.language.binding.scalars.literals import span_of
from penstock.model.types import STRING, Kind, struct_of
from penstock.plan.expressions import Call, Expression, Literal, cast_to

if TYPE_CHECKING:
    from penstock.language.binding.scalars.expressions import ExpressionBinder

STRUCTS = ("struct", "named_struct", "row")


def struct_call(binder: ExpressionBinder, syntax: exp.Anonymous) -> Expression:
    """A call that makes a STRUCT."""
    span = span_of(syntax)
    if str(syntax.name).lower() == "named_struct":
        return struct_with(*_named(binder, syntax.expressions, span), span)
    given = syntax.expressions
    names = [_name_of(each, place) for place, each in enumerate(given, start=1)]
    inner = [each.this if isinstance(each, exp.Alias) else each for each in given]
    return struct_with(names, [binder.bind(each) for each in inner], span)


def braces(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
    """`{'a': 1, 'b': x}`"""
    pairs = syntax.expressions
    names = [str(pair.this.name) for pair in pairs]
    return struct_with(names, [binder.bind(pair.expression) for pair in pairs], span)


def struct_with(names: list[str], values: list[Expression], span: Span | None) -> Expression:
    if not values:
        raise BindError("a STRUCT has fields", span=span, hint="struct(a, b)")
    typed = [cast_to(each, STRING) if each.type.kind is Kind.NULL else each for each in values]
    for each in typed:
        if each.type.kind is Kind.INTERVAL:
            raise BindError("an INTERVAL cannot be a field of a STRUCT", span=each.span or span)
    try:
        made = struct_of([(name, each.type) for name, each in zip(names, typed, strict=True)])
    except PlanError as error:
        raise BindError(error.message, span=span, hint="struct(a AS x, b AS y)") from None
    return Call("struct", tuple(typed), made, span=span)


def _name_of(syntax: exp.Expr, place: int) -> str:
    """As Spark names fields: by an alias, by the column, by their number."""
    if isinstance(syntax, exp.Alias | exp.Column | exp.Dot):
        return str(syntax.alias_or_name if not isinstance(syntax, exp.Dot) else syntax.name)
    return f"col{place}"


def _named(
    binder: ExpressionBinder, given: list[exp.Expr], span: Span | None
) -> tuple[list[str], list[Expression]]:
    if not given or len(given) % 2:
        raise BindError(
            "named_struct takes names and values in turn", span=span, hint="named_struct('a', 1)"
        )
    names = []
    for syntax in given[::2]:
        name = binder.bind(syntax)
        if not isinstance(name, Literal) or name.type != STRING or name.value is None:
            raise BindError("the name of a field is a constant text", span=span_of(syntax))
        names.append(str(name.value))
    return names, [binder.bind(each) for each in given[1::2]]
