"""Binds operators: arithmetic, comparisons, chains of them, and constructors of STRUCTs (`struct(a,
b AS c)`, `named_struct('a', 1)`, `ROW(a, b)`, `{'a': 1}`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from penstock.errors import BindError, PlanError, RunError, Span, nearest
from penstock.functions.json_paths import path_of, text_of
from penstock.functions.regular_expressions import REGULAR_EXPRESSIONS, groups_of, on_one_text
from penstock.functions.signatures import arithmetic
from penstock.functions.time_formats import pieces_of, reading_of
from penstock.functions.times import zone_of
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    STRING,
    Kind,
    Type,
    array_of,
    common_type,
    map_of,
    struct_of,
)
from penstock.plan.expressions import Call, Expression, Literal, cast_to
from penstock.sql.binder.literals import alike, span_of
from penstock.sql.parser.tokens import MAX_CHAIN, MAX_TYPE_PARTS

if TYPE_CHECKING:
    from penstock.sql.binder.expressions import ExpressionBinder

STRUCTS = ("struct", "named_struct", "row")


def struct_call(binder: ExpressionBinder, syntax: exp.Anonymous) -> Expression:
    """Bind a call that makes a STRUCT."""
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
    """Name of a field, as Spark chooses it: the alias, the column, or its number."""
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


# Parts of ARRAYs, STRUCTs and MAPs: `a[1]`, `m['k']`, `s.field`; and ARRAYs written out.


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
    """Bind a field of an expression that is no column."""
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
    """Refuse a separator that is not the same as a text, as elsewhere, and as a regular expression,
    as in Spark."""
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


COMPOSED_NESTED: dict[str, Callable[[list[Expression]], Expression]] = {
    "array": lambda given: array_with(given, None),
    "element_at": _element_at,
    "array_contains": _array_contains,
    "list_contains": _array_contains,
    "split": _split,
    "map": _map,
}


def refuse_nested(sql_type: Type, what: str, span: Span | None) -> None:
    """Refuse ARRAYs, STRUCTs and MAPs where values are ordered or compared."""
    if sql_type.is_nested:
        raise BindError(
            f"{what} {sql_type.a}",
            span=span,
            expected="a value that can be compared",
            hint="a part of it, as a[1], s.field or m['key'], or CAST(… AS STRING)",
        )


def refuse_many_parts(sql_type: Type) -> None:
    """Refuse a STRUCT with too many parts: one of itself, repeatedly, is a type whose very name
    takes all memory."""
    counts: dict[int, int] = {}  # a type that occurs twice is counted once

    def count(each: Type) -> int:
        if id(each) not in counts:
            counts[id(each)] = 1 + sum(count(part) for _, part in each.parts)
        return counts[id(each)]

    if count(sql_type) > MAX_TYPE_PARTS:
        raise BindError("the type has too many parts", expected=f"up to {MAX_TYPE_PARTS:,}")


# Chains of `+ - * / DIV %`, in which a number of calendar months or days may stand.

ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "div",
    exp.Mod: "mod",
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}  # which have no length of their own
_DAYS = {"DAY": 1, "WEEK": 7}


def chain(binder: ExpressionBinder, syntax: exp.Expr) -> Expression:
    """Bind a chain of operators, from the left, without recursion."""
    operations: list[exp.Expr] = []
    while type(syntax) in ARITHMETIC:
        operations.append(syntax)
        syntax = syntax.this
    if len(operations) > MAX_CHAIN:
        raise BindError(
            f"{len(operations)} operators in a row",
            span=span_of(operations[0]),
            expected=f"up to {MAX_CHAIN}",
        )
    operations.reverse()
    known, done = binder.known_start(prefixes(binder.below, syntax, operations))
    if known is None:
        (known, done), *_ = prefixes(binder, syntax, operations)
    for operation in operations[done:]:
        known = _combined(binder, operation, known)
    return known


def prefixes(
    binder: ExpressionBinder | None, first: exp.Expr, operations: list[exp.Expr]
) -> Iterator[tuple[Expression, int]]:
    """Bind the prefixes of a chain one by one, each with the number of operations that it
    contains."""
    if binder is None:
        return
    left, done = None, 1
    if isinstance(first, exp.Interval) and isinstance(operations[0], exp.Add):  # INTERVAL … + ts
        left = _later(binder.bind(operations[0].expression), first, operations[0])
    if left is None:
        left, done = binder.bind(first), 0
    yield left, done
    for place in range(done, len(operations) - 1):
        left = _combined(binder, operations[place], left)
        yield left, place + 1


def _combined(binder: ExpressionBinder, syntax: exp.Expr, left: Expression) -> Expression:
    if isinstance(syntax, exp.Add | exp.Sub):
        moved = _later(left, syntax.expression, syntax)
        if moved is not None:
            return moved
    right, name = binder.bind(syntax.expression), ARITHMETIC[type(syntax)]
    try:
        types = arithmetic(name, left.type, right.type)
    except BindError as error:
        error.span = span_of(syntax)
        raise
    operands = (cast_to(left, types.left), cast_to(right, types.right))
    return Call(name, operands, types.result, span=span_of(syntax))


def _later(time: Expression, syntax: exp.Expr, operation: exp.Expr) -> Expression | None:
    """Move a time by a constant that is not just a length: by calendar months, and a DATE by days,
    which leave it a DATE."""
    sign = -1 if isinstance(operation, exp.Sub) else 1
    months = _count(syntax, _MONTHS)
    if months is not None:
        return _moved(time, sign * months, operation)
    days = _count(syntax, _DAYS) if time.type.kind is Kind.DATE else None
    if days is None:
        return None
    return Call("add", (time, Literal(sign * days, BIGINT)), DATE, span=span_of(operation))


def _count(syntax: exp.Expr, units: dict[str, int]) -> int | None:
    """Count the units of an interval: 14 days for INTERVAL 2 WEEKS."""
    if not isinstance(syntax, exp.Interval) or syntax.args.get("unit") is None:
        return None
    unit = syntax.args["unit"].name.upper().removesuffix("S")
    amount = syntax.this.name
    if unit not in units or not amount.lstrip("-").isdigit() or len(amount) > 9:
        return None
    return int(amount) * units[unit]


def _moved(time: Expression, months: int, syntax: exp.Expr) -> Expression:
    if time.type.kind not in (Kind.TIMESTAMP, Kind.DATE):
        raise BindError(f"months are added to times, not to {time.type.a}", span=span_of(syntax))
    return Call("add_months", (time, Literal(months, BIGINT)), time.type, span=span_of(syntax))


# Operators that are functions in another dress: `RLIKE` and what other systems write.

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
    """Bind an operator as a function of its two operands, or of its only one."""

    def build(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
        parts = [syntax.this, syntax.args.get("expression")]
        given = [binder.bind(part) for part in parts if part is not None]
        return binder.call(name, given, span, sign)

    return build


def _at_time_zone(binder: ExpressionBinder, syntax: exp.Expr, span: Span | None) -> Expression:
    given = [binder.bind(syntax.this), binder.bind(syntax.args["zone"])]
    return binder.call("at_time_zone", given, span, "AT TIME ZONE")


def _at_once(given: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Merge `text -> 'a' -> 'b'` to `text -> '$.a.b'`, so that the text is parsed once."""
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
    """Bind `->` and `->>` with a name, a number or a path."""

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


# Constant regular expressions, formats, paths and zones: they are tried before anything runs.  And
# constants that systems take in different ways.

_FORMATS: dict[str, Callable[[str], object]] = {
    "date_format": pieces_of,
    "to_timestamp": reading_of,
    "try_to_timestamp": reading_of,
    "json_get": path_of,
    "json_text": path_of,
    "json_value": path_of,
    "json_query": path_of,
    "at_time_zone": zone_of,
}
PATTERNS = {*REGULAR_EXPRESSIONS, *_FORMATS}


def check_pattern(call: Call) -> None:
    """Check a constant pattern; an error points at it."""
    constants = [each for each in call.arguments[1:] if isinstance(each, Literal)]
    values = [each.value for each in constants]
    if len(constants) < len(call.arguments) - 1 or None in values:
        return
    try:
        if call.function in _FORMATS:
            _FORMATS[call.function](values[0])
        else:
            on_one_text(call.function)("", *values)
    except RunError as error:
        raise BindError(
            error.message, span=constants[0].span, expected=error.expected, hint=error.hint
        ) from None
    if call.function == "regexp_extract" and len(values) == 1 and groups_of(values[0]):
        raise BindError(
            "regexp_extract does not say which group",
            span=call.span,
            expected="0 for all that matches, 1 for the first group",
            hint="regexp_extract(text, pattern, 1)",
        )


def refuse_lone_backslash(pattern: Expression) -> None:
    """Refuse a backslash in a pattern of LIKE before a character other than %, _ or a backslash."""
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return
    if re.search(r"\\(?![%_])", pattern.value.replace("\\\\", "")):
        raise BindError(
            "a backslash in a pattern of LIKE stands before %, _ or another backslash",
            span=pattern.span,
            expected="two of them for a backslash, as in PostgreSQL and Spark",
            hint="LIKE … ESCAPE '!' where backslashes are to be characters like others",
        )


def refuse_place_0(call: Call) -> None:
    """Refuse `substr(text, 0, n)`, which differs between systems."""
    _, start, *length = call.arguments
    if length and isinstance(start, Literal) and start.value == 0:
        raise BindError(
            "a text that begins at 0 has one character less in PostgreSQL and DuckDB than in Spark"
            " and Flink",
            span=start.span or call.span,
            expected="1 for the first character",
        )
