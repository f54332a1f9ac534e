"""Which expressions can fail on some tuple.

Spark may skip what it does not need: the rest of a condition, an operand beside a NULL, a column
that nobody reads.  An expression that cannot fail may be skipped; one that can must not be.  And
only where something can fail, provisional rows are tried before they are given out.
"""

from __future__ import annotations

from typing import TypeAlias

from penstock.model.duration import DAY
from penstock.model.types import INT64_MAX, INT64_MIN, Kind, as_decimal
from penstock.plan.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    TableValue,
    children,
)

Range: TypeAlias = tuple[int, int]

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (INT64_MIN, INT64_MAX)
_RANGES: dict[Kind, Range] = {
    Kind.INT: _INT32,
    Kind.DATE: _INT32,
    Kind.BIGINT: _INT64,
    Kind.TIMESTAMP: _INT64,
    Kind.INTERVAL: _INT64,
}
_SMALL = {  # results that are far from the ends of a BIGINT, whatever the argument
    **dict.fromkeys(("length", "strpos", "cardinality", "octet_length", "ascii"), (0, 2**31)),
    **dict.fromkeys(("crc32", "bit_count"), (0, 2**32)),
    **dict.fromkeys(("quarter", "month", "week", "day", "isodow", "dayofyear"), (0, 366)),
    **dict.fromkeys(("hour", "minute", "second", "sign"), (-1, 60)),
    "year": (-(2**23), 2**23),
    "epoch": (INT64_MIN // 1_000_000, INT64_MAX // 1_000_000),
    "epoch_ms": (INT64_MIN // 1_000, INT64_MAX // 1_000),
}
_BY_PATTERN = {"regexp_like", "regexp_count", "regexp_extract", "regexp_replace"}
_BY_PATTERN |= {
    "date_format",
    "try_to_timestamp",
    "json_get",
    "json_text",
    "json_value",
    "json_query",
}
_FAILING = {"date_trunc", "time_bucket", "number_bucket"}  # below the first of all times
_FAILING |= {"to_timestamp", "add_months", "at_time_zone", "shiftleft", "shiftright"}
_FAILING |= {"repeat", "chr"}
_FACTORS = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}


def may_fail(expression: Expression) -> bool:
    """Whether some tuple makes it an error, as far as types and constants tell.

    >>> from penstock.model.types import BIGINT, INT
    >>> small, large = Cast(Column("a", INT), BIGINT), Column("b", BIGINT)
    >>> [may_fail(Call("add", (each, Literal(1, BIGINT)), BIGINT)) for each in (small, large)]
    [False, True]
    """
    if any(may_fail(child) for child in children(expression)):
        return True
    match expression:
        case Cast():
            return not expression.tries and _cast_may_fail(expression)
        case Call():
            return _call_may_fail(expression)
        case _:
            return False


def aggregate_may_fail(call: AggregateCall) -> bool:
    """The same for the result over some tuples: a sum may leave its type, and nobody knows what the
    aggregates of users do."""
    given = [*call.arguments, *([call.where] if call.where is not None else [])]
    sums = call.function.name == "sum" and call.type.kind is not Kind.DOUBLE
    return sums or call.function.implementation is not None or any(map(may_fail, given))


def _cast_may_fail(cast: Cast) -> bool:
    given, wanted = cast.operand.type, cast.type
    if given == wanted or given.kind is Kind.NULL:
        return False
    if given.kind in (Kind.STRING, Kind.BINARY) or wanted.is_nested:
        return True
    match wanted.kind:
        case Kind.STRING | Kind.BOOLEAN | Kind.DOUBLE | Kind.DATE:
            return False
        case Kind.DECIMAL if given.is_number and given.kind is not Kind.DOUBLE:
            exact = as_decimal(given)
            carries = exact.scale > wanted.scale  # 9.99 may become 10.0
            return exact.precision - exact.scale + carries > wanted.precision - wanted.scale
        case Kind.INT | Kind.BIGINT if given.is_integer or given.kind is Kind.BOOLEAN:
            return given.is_integer and not _within(range_of(cast.operand), _RANGES[wanted.kind])
        case Kind.TIMESTAMP if given.kind is Kind.DATE:
            low, high = range_of(cast.operand)
            return not _within((low * DAY, high * DAY), _INT64)
    return True


def _call_may_fail(call: Call) -> bool:
    if call.user is not None:
        return True
    if call.type.kind is Kind.DECIMAL:
        return _decimals_may_fail(call)
    if call.function in _BY_PATTERN:
        return any(not isinstance(each, Literal) for each in call.arguments[1:])
    if call.function == "map":
        return any(not isinstance(key, Literal) or key.value is None for key in call.arguments[::2])
    if call.function in _FAILING:
        return True
    computed = _computed(call)
    return computed is not None and not _within(computed, _RANGES[call.type.kind])


def _decimals_may_fail(call: Call) -> bool:
    """The type of a sum or product has room for it, up to 38 digits."""
    if call.function in ("add", "subtract", "multiply", "div"):
        return call.type.precision == 38
    if call.function in ("round", "floor", "ceil"):
        return call.arguments[0].type.precision == 38 or len(call.arguments) > 1
    return False


def range_of(expression: Expression) -> Range:
    """Between which numbers the value lies, of a type that is a number inside."""
    everything = _RANGES[expression.type.kind]
    match expression:
        case Literal():
            value = 0 if expression.value is None else int(expression.value)
            return value, value
        case Cast() if expression.operand.type.is_integer:
            return _narrowed(range_of(expression.operand), everything)
        case Cast() if expression.operand.type.kind is Kind.DATE:
            low, high = range_of(expression.operand)
            return _narrowed((low * DAY, high * DAY), everything)
        case Call():
            return _narrowed(_computed(expression) or everything, everything)
        case Column() | Cast() | Case() | TableValue():
            return everything


def _computed(call: Call) -> Range | None:
    """The range before it is cut to that of the type; None if nothing is computed."""
    if call.type.kind not in _RANGES:
        return None
    if call.function in _SMALL:
        return _SMALL[call.function]
    if call.function in ("coalesce", "if", "greatest", "least", "nullif"):
        return None
    if not all(argument.type.kind in _RANGES for argument in call.arguments):
        return None
    given = [range_of(argument) for argument in call.arguments]
    match call.function, given:
        case "add", [(a, b), (c, d)]:
            return a + c, b + d
        case "subtract", [(a, b), (c, d)]:
            return a - d, b - c
        case "multiply", [(a, b), (c, d)]:
            products = (a * c, a * d, b * c, b * d)
            return min(products), max(products)
        case "div", [(a, b), (c, d)]:
            if c <= -1 <= d:  # the only divisor that can leave the type
                return min(a, -b), max(b, -a)
            return min(a, -b, 0), max(b, min(-a, INT64_MAX), 0)
        case "mod", [(a, b), _]:
            return min(a, 0), max(b, 0)
        case "round", [(a, b), (places, _)]:
            unit = 10 ** min(max(0, -places), 20)  # to tens and hundreds: also up, beyond the type
            return a - unit // 2, b + unit // 2
        case "negate", [(a, b)]:
            return -b, -a
        case "abs", [(a, b)]:
            return 0, max(abs(a), abs(b))
        case name, [(a, b)] if name in _FACTORS:
            return a * _FACTORS[name], b * _FACTORS[name]
    return None


def _within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _narrowed(inner: Range, outer: Range) -> Range:
    return max(inner[0], outer[0]), min(inner[1], outer[1])
