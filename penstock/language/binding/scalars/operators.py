"""Operators that are functions in another dress: `RLIKE` and what other systems write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from penstock.errors import Span
from penstock.language.binding.scalars.nested import array, bracket, dot
from penstock.language.binding.scalars.structs import braces
from penstock.model.types import BOOLEAN, STRING
from penstock.plan.expressions import Call, Expression, Literal
from penstock.scalars.json_paths import path_of, text_of

if TYPE_CHECKING:
    from penstock.language.binding.scalars.expressions import ExpressionBinder

Binding: TypeAlias = Callable[["ExpressionBinder", exp.Expr, Span | None], Expression]


def _regexp(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
    operands = [binder.bind(syntax.this), binder.bind(syntax.expression)]
    if isinstance(syntax, exp.RegexpILike):
        operands.append(Literal("i", STRING))
    found = binder.call("regexp_like", operands, span, "RLIKE")
    return Call("not", (found,), BOOLEAN, span=span) if syntax.args.get("negate") else found


def _between(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
    low, high = syntax.args["low"], syntax.args["high"]

    def inside(low: exp.Expr, high: exp.Expr) -> Expression:
        above = binder.compare("ge", syntax.this, low, span)
        below = binder.compare("le", syntax.this, high, span)
        return Call("and", (above, below), BOOLEAN, span=span)

    if not syntax.args.get("symmetric"):
        return inside(low, high)
    return Call("or", (inside(low, high), inside(high, low)), BOOLEAN, span=span)


def _called(name: str, sign: str) -> Binding:
    """A function between its two arguments, or before its only one."""

    def build(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
        parts = [syntax.this, syntax.args.get("expression")]
        given = [binder.bind(part) for part in parts if part is not None]
        return binder.call(name, given, span, sign)

    return build


def _at_time_zone(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
    given = [binder.bind(syntax.this), binder.bind(syntax.args["zone"])]
    return binder.call("at_time_zone", given, span, "AT TIME ZONE")


def _at_once(given: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """`text -> 'a' -> 'b'` is `text -> '$.a.b'`: the text is read once."""
    text, path = given
    if not isinstance(text, Call) or text.function != "json_get":
        return given
    whole, before = text.arguments
    known = [each.value for each in (before, path) if isinstance(each, Literal)]
    if len(known) < 2 or None in known:
        return given
    both = text_of(path_of(known[0]) + path_of(known[1]))
    return given if both is None else (whole, Literal(both, STRING, span=path.span))


def _json(name: str, sign: str) -> Binding:
    """`->` and `->>` with a name, a number or a path."""

    def build(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
        text, path = binder.bind(syntax.this), binder.bind(syntax.expression)
        if isinstance(path, Literal) and path.type.is_integer:
            path = Literal(f"$[{path.value}]", STRING, span=path.span)
        made = binder.call(name, [text, path], span, sign)
        return replace(made, arguments=_at_once(made.arguments))

    return build


OPERATORS: dict[type[exp.Expr], Binding] = {
    exp.Between: _between,
    exp.RegexpLike: _regexp,
    exp.RegexpILike: _regexp,
    exp.BitwiseAnd: _called("bitand", "&"),
    exp.BitwiseOr: _called("bitor", "|"),
    exp.BitwiseXor: _called("bitxor", "^"),
    exp.BitwiseNot: _called("bitnot", "~"),
    exp.BitwiseLeftShift: _called("shiftleft", "<<"),
    exp.BitwiseRightShift: _called("shiftright", ">>"),
    exp.AtTimeZone: _at_time_zone,
    exp.JSONExtract: _json("json_get", "->"),
    exp.JSONExtractScalar: _json("json_text", "->>"),
    exp.Bracket: bracket,
    exp.Dot: dot,
    exp.Array: array,
    exp.Struct: braces,
}
