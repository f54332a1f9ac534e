"""Constants (numbers, texts, times, lengths of time), the types they name, and casts between
types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.errors import BindError, PenstockError, PlanError, Span, shortened
from penstock.functions.scalar_functions import scalar
from penstock.io.formats.epochs import likely_epoch
from penstock.io.formats.text_values import parse_column, why_bad
from penstock.model.durations import microseconds, parse_duration
from penstock.model.ticks import Domain, Length
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    EPOCHS,
    INT,
    INT64_MAX,
    INT64_MIN,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Epoch,
    Kind,
    Type,
    array_of,
    common_type,
    decimal_type,
    map_of,
    struct_of,
)
from penstock.model.values import to_python
from penstock.plan.expressions import Call, Expression, Literal, cast_to
from penstock.sql.syntax import Quantity, meant_type

_TYPES: dict[str, Type] = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": INT,
    "SMALLINT": INT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": DOUBLE,
    "DOUBLE": DOUBLE,
    "TEXT": STRING,
    "CHAR": STRING,
    "VARCHAR": STRING,
    "BINARY": BINARY,
    "VARBINARY": BINARY,
    "BLOB": BINARY,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP,
    "DATETIME": TIMESTAMP,
}
TYPE_NAMES = (
    "BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p,s), STRING, BINARY, DATE, TIMESTAMP,"
    " ARRAY<…>, STRUCT<…>, MAP<…>"
)


def span_of(syntax: exp.Expr) -> Span | None:
    """Span of an expression in the text, from its first part to its last."""
    start, end, sql = None, None, None
    pending = [syntax]
    while pending:
        node = pending.pop()
        meta = node.meta
        if "start" in meta and "end" in meta:
            start = meta["start"] if start is None else min(start, meta["start"])
            end = meta["end"] + 1 if end is None else max(end, meta["end"] + 1)
        sql = meta.get("sql", sql)
        if not isinstance(node, exp.Literal):  # the most by far, and nothing is inside of them
            pending += node.iter_expressions()
    return None if start is None or end is None else Span(start, max(start, end), sql)


def column_type(syntax: exp.Expr, span: Span | None) -> Type:
    """Bind the type of a declared column, in which numbers may stand for times."""
    return sql_type(syntax, span, declared=True)


def sql_type(syntax: exp.Expr, span: Span | None, declared: bool = False) -> Type:
    """Bind a type name. Of a `declared` column, the length of a text or the digits of a time are
    accepted and ignored."""
    unit = syntax.meta.get("epoch")
    if unit is not None:
        if not declared:
            raise BindError(
                "EPOCH says what is read, and nothing is read here",
                span=span,
                expected="EPOCH in the columns of a stream or table",
                hint="timestamp_seconds(n), timestamp_millis(n) or timestamp_micros(n)",
            )
        found = sql_type(exp.DataType(this=syntax.this, expressions=syntax.expressions), span)
        try:
            return replace(found, epoch=Epoch[unit])
        except PlanError as error:
            raise BindError(error.message, span=span, expected=error.expected) from None
    if isinstance(syntax, exp.DataType) and isinstance(syntax.this, exp.DataType.Type):
        name = syntax.this.value
        parameters = [parameter.name for parameter in syntax.expressions]
        if name == "DECIMAL":
            if not all(each.isdigit() for each in parameters) or len(parameters) > 2:
                raise BindError("DECIMAL takes a precision and a scale", span=span)
            precision, scale = [*map(int, parameters), *[18, 3][len(parameters) :]][:2]
            scale = 0 if len(parameters) == 1 else scale
            try:
                return decimal_type(precision, scale)
            except PenstockError as error:
                raise BindError(error.message, span=span) from None
        if name in _TYPES:
            if parameters and not declared and (name, parameters) != ("TIMESTAMP", ["6"]):
                raise BindError(
                    f"{_TYPES[name].a} has no length: {syntax.sql()} would change no value",
                    span=span,
                    hint=_SHORTER.get(_TYPES[name].kind, str(_TYPES[name])),
                )
            return _TYPES[name]
        if name in ("ARRAY", "LIST", "STRUCT", "MAP") and syntax.expressions:
            return _nested_type(syntax, name, span, declared)
    written = syntax.sql()
    raise BindError(
        f"{shortened(written, 80)!r} is not a type that streams carry",
        span=span,
        expected=TYPE_NAMES,
        hint=meant_type(written),
    )


_SHORTER = {Kind.STRING: "left(x, n)", Kind.TIMESTAMP: "date_trunc('second', ts)"}


def _nested_type(syntax: exp.DataType, name: str, span: Span | None, declared: bool) -> Type:
    try:
        if name == "STRUCT":
            fields = [each for each in syntax.expressions if isinstance(each, exp.ColumnDef)]
            if len(fields) < len(syntax.expressions):
                raise BindError("the fields of a STRUCT have names", span=span)
            kinds = [(each.name, each.args["kind"]) for each in fields]
            return struct_of([(each, sql_type(kind, span, declared)) for each, kind in kinds])
        parts = [sql_type(each, span, declared) for each in syntax.expressions]
        if name == "MAP":
            if len(parts) != 2:
                raise BindError("a MAP has keys and values", span=span, hint="MAP<STRING, INT>")
            return map_of(parts[0], parts[1])
        return array_of(parts[0])
    except PlanError as error:
        raise BindError(error.message, span=span) from None


def number(text: str, span: Span | None) -> Literal:
    """Bind a number as written: whole numbers INT or BIGINT, `1.5` exact, `1e3` DOUBLE."""
    if "e" in text.lower():
        try:
            value_of_double = float(text)
        except ValueError:
            raise BindError(f"{text[:50]!r} is not a number", span=span) from None
        if math.isinf(value_of_double):
            raise BindError(f"{text[:50]} is too large for a DOUBLE", span=span)
        return Literal(value_of_double, DOUBLE, span=span)
    if len(text) > 100:  # far beyond any type, and slow to look at
        raise BindError(f"{text[:50]}… has more than 38 digits", span=span)
    value = Decimal(text)
    if "." not in text:
        whole = int(value)
        if whole < 2**31:
            return Literal(whole, INT, span=span)
        if whole <= INT64_MAX:
            return Literal(whole, BIGINT, span=span)
    digits = value.as_tuple().digits
    scale = max(0, -int(value.as_tuple().exponent))
    precision = max(len(digits), scale + 1)
    if precision > 38:
        raise BindError(f"{text[:50]} has more than 38 digits", span=span)
    return Literal(value, decimal_type(precision, scale), span=span)


def text_as(text: str, wanted: Type, span: Span | None) -> Literal:
    """Parse a quoted text as another type."""
    if wanted.kind is Kind.STRING:
        return Literal(text, STRING, span=span)
    if wanted.kind is Kind.INTERVAL:
        try:
            return Literal(parse_duration(text), INTERVAL, span=span)
        except PenstockError as error:
            error.span = span
            raise
    column, bad = parse_column(pa.array([text], pa.string()), wanted)
    if bad[0]:
        raise BindError(
            why_bad(text, wanted)
            if wanted.epoch
            else f"{shortened(repr(text), 80)} is not {wanted.a}",
            span=span,
            expected=_EXAMPLES.get(wanted.kind),
        )
    return Literal(to_python(column, wanted)[0], wanted, span=span)


_EXAMPLES = {
    Kind.TIMESTAMP: "a text such as '2026-01-31 23:59:59'",
    Kind.DATE: "a text such as '2026-01-31'",
    Kind.INT: "a whole number of 32 bits; BIGINT has 64",
}


def interval(syntax: exp.Interval, span: Span | None) -> Literal:
    try:
        if syntax.args.get("unit") is None:
            return Literal(parse_duration(syntax.this.name), INTERVAL, span=span)
        length = microseconds(Decimal(syntax.this.name), syntax.args["unit"].name)
        return Literal(length, INTERVAL, span=span)
    except PenstockError as error:
        raise BindError(
            error.message, span=span, expected=error.expected, hint=error.hint
        ) from None


def constant(syntax: exp.Expr) -> Literal:
    """Bind a literal, possibly with a sign or a type before it; expressions are refused."""
    span = span_of(syntax)
    match syntax:
        case exp.Null():
            return Literal(None, NULL, span=span)
        case exp.Boolean():
            return Literal(bool(syntax.this), BOOLEAN, span=span)
        case exp.Literal():
            if syntax.is_string:
                return Literal(syntax.name, STRING, span=span)
            return number(syntax.name, span)
        case exp.Interval():
            return interval(syntax, span)
        case exp.Paren():
            return constant(syntax.this)
        case exp.Neg():
            inner = constant(syntax.this)
            if inner.type.is_number:
                value = inner.value
                negative = value.copy_negate() if isinstance(value, Decimal) else -value
                lowest = negative == INT64_MIN
                return Literal(
                    INT64_MIN if lowest else negative, BIGINT if lowest else inner.type, span=span
                )
        case exp.Cast() if isinstance(syntax.this, exp.Literal) and syntax.this.is_string:
            return text_as(syntax.this.name, sql_type(syntax.args["to"], span), span)
    raise BindError("only constants can stand here", span=span, hint="a number or a quoted text")


def constant_as(syntax: exp.Expr, wanted: Type) -> Any:
    """Value of a constant, converted to the type `wanted`."""
    return literal_as(constant(syntax), wanted)


def literal_as(literal: Literal, wanted: Type) -> Any:
    if literal.value is None:
        return None
    if literal.type == wanted.plain and not wanted.is_nested:
        return literal.value
    text = None if wanted.is_nested else text_of(literal, wanted)
    if text is not None:
        return text_as(text, wanted, literal.span).value
    if literal.type == wanted:
        return literal.value
    if (literal.type.kind, wanted.kind) == (Kind.DATE, Kind.TIMESTAMP):
        return literal.value * 86_400_000_000
    hint = None
    if literal.type.is_number and wanted.kind in EPOCHS:
        unit = likely_epoch(literal.value).value
        hint = f"{wanted} EPOCH {unit} if numbers count those since 1970"
        if wanted.kind is Kind.DATE:
            hint = "DATE EPOCH DAYS if numbers count those since 1970"
    raise BindError(f"{literal.type.a} is given for {wanted.a}", span=literal.span, hint=hint)


def text_of(literal: Literal, wanted: Type) -> str | None:
    """Text of a literal that is parsed as a value of the wanted type, if it becomes one that
    way."""
    if literal.type.kind is Kind.STRING:
        return str(literal.value)
    takes_numbers = wanted.is_number or wanted.epoch is not None
    return str(literal.value) if literal.type.is_number and takes_numbers else None


def ticks(quantity: Quantity, domain: Domain) -> int:
    """Convert a length to the ticks of the attribute that it measures."""
    try:
        if quantity.unit is None:
            return domain.length_of_number(quantity.amount)
        return domain.length_of_time(microseconds(quantity.amount, quantity.unit))
    except PenstockError as error:
        raise BindError(
            error.message, span=quantity.span, expected=error.expected, hint=error.hint
        ) from None


def length_of_time(quantity: Quantity) -> int:
    """Convert a length to microseconds."""
    if quantity.unit is None:
        raise BindError(
            f"{quantity.amount} has no unit",
            span=quantity.span,
            expected="a number and a unit of time",
            hint=f"{quantity.amount} SECONDS",
        )
    return ticks(quantity, Domain(TIMESTAMP))


def any_length(quantity: Quantity) -> Length:
    """Convert a length for a column that is not known yet."""
    if quantity.unit is None:
        return Length(number=quantity.amount)
    return Length(length_of_time(quantity))


def whole_rows(quantity: Quantity) -> int:
    if not quantity.is_rows or quantity.amount != quantity.amount.to_integral_value():
        raise BindError(
            f"{quantity} is not a number of rows", span=quantity.span, expected="n ROWS"
        )
    if quantity.amount > INT64_MAX:
        raise BindError(
            f"{quantity} are more than can be counted",
            span=quantity.span,
            expected=f"at most {INT64_MAX} ROWS",
        )
    return int(quantity.amount)


# Conversion of values to a common type, and the casts that exist.


def alike(values: list[Expression], verb: str) -> tuple[Expression, ...]:
    """Convert values to a common type. A quoted text among times is parsed as a time."""
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
    """Common type of all values; NULL if there are none."""
    shared: Type | None = NULL
    for each in types:
        shared = common_type(shared, each) if shared is not None else None
    return shared


def _unlike(values: list[Expression], verb: str) -> BindError:
    """First value that has no common type with the first."""
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


# Calls that the binder makes itself, of functions in the catalogue.


def called(name: str, arguments: Sequence[Expression], shown: str | None = None) -> Call:
    """Make a call by the name of a function; messages use `shown` in its place, if given."""
    function = scalar(name)
    assert function is not None
    types = function.signature.convert(shown or function.name, [each.type for each in arguments])
    converted = tuple(cast_to(each, to) for each, to in zip(arguments, types, strict=True))
    return Call(function.name, converted, function.returns(types))


def text(value: str) -> Literal:
    return Literal(value, STRING)


def takes(name: str, arguments: str) -> BindError:
    return BindError(f"{name} is called with other arguments", expected=f"{name}({arguments})")
