"""Parts of ARRAYs, STRUCTs and MAPs: `a[1]`, `m['k']`, `s.field`; and ARRAYs written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.errors import BindError, PlanError, Span, nearest
from penstock.language.binding.scalars.coercion import alike
from penstock.language.binding.scalars.literals import span_of
from penstock.language.limits import MAX_TYPE_PARTS
from penstock.model.types import BIGINT, BOOLEAN, STRING, Kind, Type, array_of, common_type, map_of
from penstock.plan.expressions import Call, Expression, Literal, cast_to

if TYPE_CHECKING:
    from penstock.language.binding.scalars.expressions import ExpressionBinder


def bracket(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
    """`a[1]` and `m['k']`."""
    whole, key = binder.bind(syntax.this), binder.bind(syntax.expressions[0])
    return element(whole, key, span)


def element(whole: Expression, key: Expression, span: Span | None) -> Expression:
    if whole.type.kind is Kind.MAP:
        wanted = whole.type.parts[0][1]
        if common_type(key.type, wanted) != wanted:
            raise BindError(
                f"the keys of {whole.type} are not {key.type.a}", span=key.span, expected=wanted.a
            )
        return Call("map_value", (whole, cast_to(key, wanted)), whole.type.item, span=span)
    if whole.type.kind is not Kind.ARRAY:
        hint = "s.field" if whole.type.kind is Kind.STRUCT else None
        raise BindError(f"{whole.type.a} has no elements", span=span, hint=hint)
    if not key.type.is_integer and key.type.kind is not Kind.NULL:
        raise BindError(f"the place in an ARRAY is a whole number, not {key.type.a}", span=key.span)
    if isinstance(key, Literal) and key.value == 0:
        raise BindError(
            "the first element of an ARRAY is at 1",
            span=key.span,
            hint="a[1] for the first, a[-1] for the last",
        )
    return Call("element", (whole, cast_to(key, BIGINT)), whole.type.item, span=span)


def field(struct: Expression, name: str, span: Span | None) -> Expression:
    """`s.name`."""
    if struct.type.kind is not Kind.STRUCT:
        raise BindError(f"{struct.type.a} has no fields", span=span)
    names = [each for each, _ in struct.type.parts]
    same = [place for place, each in enumerate(names) if each == name]
    same = same or [place for place, each in enumerate(names) if each.casefold() == name.casefold()]
    if not same:
        close = nearest(name, names)
        raise BindError(
            f"there is no field {name!r} in {struct}",
            span=span,
            expected=f"one of {', '.join(names)}",
            hint=close[0] if close else None,
        )
    result = struct.type.parts[same[0]][1]
    return Call("struct_field", (struct, Literal(same[0], BIGINT)), result, span=span)


def dot(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
    """A field of something that is not a column."""
    if not isinstance(syntax.expression, exp.Identifier):
        raise BindError("a field has a name", span=span)
    return field(binder.bind(syntax.this), syntax.expression.name, span)


def path(binder: ExpressionBinder, syntax: exp.Column) -> Expression | None:
    """`s.f`, `r.s.f`, `s.f.g`: fields of a STRUCT; None if the first name is not one's."""
    names = [syntax.args.get(part) for part in ("catalog", "db", "table", "this")]
    written = [each.name for each in names if each is not None]
    span = span_of(syntax)
    for relation, rest in ((written[0], written[1:]), (None, written)):
        fields = binder.scope.matches(rest[0], relation)
        if relation is not None and fields and len(rest) == 1:
            return None  # a column of a relation, as ever
        structs = [each for each in fields if each.type.kind is Kind.STRUCT]
        if not (structs if relation is None else fields):
            continue
        found: Expression = binder.scope.find(rest[0], relation, span)
        for name in rest[1:]:
            found = field(found, name, span)
        return found
    return None


def array(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
    return array_with([binder.bind(each) for each in syntax.expressions], span)


def array_with(items: list[Expression], span: Span | None) -> Expression:
    if not items:
        raise BindError("an ARRAY that is written out has elements", span=span, hint="ARRAY[1, 2]")
    converted = alike(items, "put")
    item = converted[0].type
    if item.kind is Kind.NULL:
        item = STRING
    return Call(
        "array", tuple(cast_to(each, item) for each in converted), array_of(item), span=span
    )


def _element_at(given: list[Expression]) -> Expression:
    if len(given) != 2:
        raise BindError("element_at takes an ARRAY and a place, or a MAP and a key")
    return element(given[0], given[1], None)


def _array_contains(given: list[Expression]) -> Expression:
    if len(given) == 2 and given[0].type.kind is Kind.NULL:
        return Literal(None, BOOLEAN)
    if len(given) != 2 or given[0].type.kind is not Kind.ARRAY:
        raise BindError("array_contains takes an ARRAY and a value", hint="array_contains(a, 1)")
    item = given[0].type.item
    refuse_nested(item, "array_contains cannot compare", given[1].span)
    if common_type(item, given[1].type) != item:
        raise BindError(
            f"{given[1].type.a} cannot be in {given[0].type.a}", span=given[1].span, expected=item.a
        )
    return Call("array_contains", (given[0], cast_to(given[1], item)), BOOLEAN)


def _split(given: list[Expression]) -> Expression:
    """Elsewhere the separator is a text, in Spark a regular expression: here, what is both."""
    if len(given) != 2 or not isinstance(given[1], Literal) or given[1].type != STRING:
        raise BindError("split takes a text and a separator", expected="split(text, ',')")
    if given[0].type != STRING and given[0].type.kind is not Kind.NULL:
        raise BindError(f"argument 1 of split is {given[0].type.a}", expected="a STRING")
    if any(each in r"\.[]{}()*+?^$|" for each in given[1].value):
        raise BindError(
            f"{given[1]} is a regular expression in Spark, and a text elsewhere",
            span=given[1].span,
            hint=f"string_split(text, {given[1]}) if it is a text",
        )
    return Call("string_split", (cast_to(given[0], STRING), given[1]), array_of(STRING))


def _map(given: list[Expression]) -> Expression:
    if not given or len(given) % 2:
        raise BindError("a MAP takes keys and values in turn", hint="MAP['a', 1, 'b', 2]")
    keys, values = alike(given[::2], "put"), alike(given[1::2], "put")
    kinds = [STRING if each[0].type.kind is Kind.NULL else each[0].type for each in (keys, values)]
    try:
        made = map_of(*kinds)
    except PlanError as error:
        raise BindError(error.message, span=keys[0].span) from None
    pairs = zip(keys, values, strict=True)
    arguments = [cast_to(each, to) for pair in pairs for each, to in zip(pair, kinds, strict=True)]
    return Call("map", tuple(arguments), made)


NESTED: dict[str, Callable[[list[Expression]], Expression]] = {
    "array": lambda given: array_with(given, None),
    "element_at": _element_at,
    "array_contains": _array_contains,
    "list_contains": _array_contains,
    "split": _split,
    "map": _map,
}


def refuse_nested(sql_type: Type, what: str, span: Span | None) -> None:
    """ARRAYs, STRUCTs and MAPs have no order, and nothing is told apart by them."""
    if sql_type.is_nested:
        raise BindError(
            f"{what} {sql_type.a}",
            span=span,
            expected="a value that can be compared",
            hint="a part of it, as a[1], s.field or m['key'], or CAST(… AS STRING)",
        )


def refuse_many_parts(sql_type: Type) -> None:
    """A STRUCT of itself, again and again, is a type whose very name takes all memory."""
    counts: dict[int, int] = {}  # a type that occurs twice is counted once

    def count(each: Type) -> int:
        if id(each) not in counts:
            counts[id(each)] = 1 + sum(count(part) for _, part in each.parts)
        return counts[id(each)]

    if count(sql_type) > MAX_TYPE_PARTS:
        raise BindError("the type has too many parts", expected=f"up to {MAX_TYPE_PARTS:,}")
