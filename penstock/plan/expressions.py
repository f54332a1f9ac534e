"""Bound expressions: every name resolved, every type known, every conversion explicit; and what
follows from them about failure, progress and filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from penstock.errors import PlanError, Span
from penstock.functions.aggregate_functions import AggregateFunction
from penstock.functions.scalar_functions import SCALARS
from penstock.functions.signatures import SYMBOLS
from penstock.functions.user_functions import UserFunction
from penstock.model.durations import DAY, format_date, format_duration, format_timestamp, time_zone
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    INT64_MAX,
    INT64_MIN,
    Field,
    Kind,
    Schema,
    Type,
    as_decimal,
)

if TYPE_CHECKING:
    from penstock.plan.streams import StreamDefinition

COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OTHERS = {"and", "or", "not", "negate", "is_null", "is_distinct", "in", "like", "ilike"}
_OTHERS |= {"promised_as"}  # see `promised` in expressions/evaluation.py
_OTHERS |= {"lowest_at_time_zone", "highest_at_time_zone"}  # there, too
_OTHERS |= {"struct"}  # struct(a, b), {'a': 1}
_OTHERS |= {"array", "map", "element", "map_value", "struct_field"}  # ARRAY[…], a[1], m['k'], s.f
_OTHERS |= {"array_concat", "array_reverse", "array_slice", "array_distinct", "array_position"}
_OTHERS |= {"array_max", "array_min"}
OPERATORS = {**SYMBOLS, **COMPARISONS}
FUNCTION_NAMES = set(SCALARS) | set(OPERATORS) | _OTHERS


def _span() -> Any:
    return field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Column:
    """Reference to a column."""

    name: str
    type: Type
    relation: str | None = None
    span: Span | None = _span()

    def __str__(self) -> str:
        return f"{self.relation}.{self.name}" if self.relation else self.name

    @classmethod
    def of(cls, field_: Field, span: Span | None = None) -> Column:
        return cls(field_.name, field_.type, field_.relation, span=span)

    def position(self, schema: Schema) -> int:
        return schema.index(self.name, self.relation)


@dataclass(frozen=True, slots=True)
class Literal:
    """Constant; `value` follows the conventions of `model.types` (times are integers)."""

    value: Any
    type: Type
    span: Span | None = _span()

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        match self.type.kind:
            case Kind.STRING:
                return "'" + str(self.value).replace("'", "''") + "'"
            case Kind.TIMESTAMP:
                return f"TIMESTAMP '{format_timestamp(self.value)}'"
            case Kind.DATE:
                return f"DATE '{format_date(self.value)}'"
            case Kind.INTERVAL:
                return f"INTERVAL {format_duration(self.value)}"
            case Kind.BOOLEAN:
                return "TRUE" if self.value else "FALSE"
            case Kind.ARRAY:
                return f"ARRAY[{', '.join(str(Literal(v, self.type.item)) for v in self.value)}]"
            case _:
                return str(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """Call of a scalar function or operator. `and`, `or` and `in` take any number of arguments, so
    that long chains stay flat.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    user: UserFunction | None = None  # the function, if it is user-defined
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if self.user is None and self.function not in FUNCTION_NAMES:
            raise PlanError(f"no scalar function is called {self.function}")

    def __str__(self) -> str:
        shown = [str(argument) for argument in self.arguments]
        if self.user is not None:
            return f"{self.function}({', '.join(shown)})"
        if self.function in OPERATORS:
            return f"({shown[0]} {OPERATORS[self.function]} {shown[1]})"
        match self.function:
            case "and" | "or" | "like" | "ilike":
                return "(" + f" {self.function.upper()} ".join(shown) + ")"
            case "not":
                return f"(NOT {shown[0]})"
            case "negate":
                return f"(-{shown[0]})"
            case "is_null":
                return f"({shown[0]} IS NULL)"
            case "is_distinct":
                return f"({shown[0]} IS DISTINCT FROM {shown[1]})"
            case "array" | "map":
                return f"{self.function.upper()}[{', '.join(shown)}]"
            case "struct":
                pairs = zip(self.type.parts, shown, strict=True)
                return f"STRUCT({', '.join(f'{each} AS {name}' for (name, _), each in pairs)})"
            case "element" | "map_value":
                return f"{shown[0]}[{shown[1]}]"
            case "struct_field":
                return f"{shown[0]}.{self._field_name()}"
            case "in":
                return f"({shown[0]} IN ({', '.join(shown[1:])}))"
            case name:
                return f"{name}({', '.join(shown)})"

    def _field_name(self) -> str:
        struct, place = self.arguments
        return struct.type.parts[place.value][0] if isinstance(place, Literal) else str(place)


@dataclass(frozen=True, slots=True)
class Case:
    """CASE WHEN condition THEN value … ELSE otherwise END."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: Type
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if any(condition.type != BOOLEAN for condition, _ in self.branches):
            raise PlanError("a CASE condition is not BOOLEAN")

    def __str__(self) -> str:
        whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in self.branches)
        return f"CASE {whens} ELSE {self.otherwise} END"


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion; one that fails is an error, or NULL if it `tries`."""

    operand: Expression
    type: Type
    tries: bool = False
    span: Span | None = _span()

    def __str__(self) -> str:
        return f"{'TRY_' * self.tries}CAST({self.operand} AS {self.type})"


@dataclass(frozen=True, slots=True)
class TableValue:
    """Value of a query over tables alone: the only column of the only row of `table`. Binding
    replaces it by a look-up (see `plan/table_values.py`), so no engine evaluates one.
    """

    table: StreamDefinition
    type: Type
    span: Span | None = _span()

    def __str__(self) -> str:
        return f"({self.table.name})"


Expression: TypeAlias = Column | Literal | Call | Case | Cast | TableValue


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate over the tuples of an extent; without arguments, it counts them."""

    function: AggregateFunction
    arguments: tuple[Expression, ...]
    type: Type
    distinct: bool = False
    where: Expression | None = None
    span: Span | None = _span()

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.arguments)) or "*"
        distinct = "DISTINCT " if self.distinct else ""
        where = f" FILTER (WHERE {self.where})" if self.where else ""
        return f"{self.function.name}({distinct}{inside}){where}"


@dataclass(frozen=True, slots=True)
class Named:
    """Expression with the name of its output column."""

    name: str
    expression: Expression

    def __str__(self) -> str:
        shown = str(self.expression)
        return shown if shown == self.name else f"{shown} AS {self.name}"


def children(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Call():
            return expression.arguments
        case Case():
            flat = [part for branch in expression.branches for part in branch]
            return (*flat, expression.otherwise)
        case Cast():
            return (expression.operand,)
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Iterate over the expression and all its parts, outermost first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def columns_of(expression: Expression) -> list[Column]:
    return [part for part in walk(expression) if isinstance(part, Column)]


def conjuncts(predicate: Expression) -> tuple[Expression, ...]:
    """Predicates that must all hold."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return predicate.arguments
    return (predicate,)


def all_of(predicates: list[Expression]) -> Expression | None:
    """Conjunction of predicates; None when there are none."""
    if len(predicates) <= 1:
        return predicates[0] if predicates else None
    return Call("and", tuple(predicates), BOOLEAN)


def cast_to(expression: Expression, wanted: Type) -> Expression:
    """Convert the expression to a type; constants are converted at once where nothing can go
    wrong.
    """
    if expression.type == wanted:
        return expression
    if isinstance(expression, Literal):
        if expression.value is None or (expression.type.is_integer and wanted == BIGINT):
            return replace(expression, type=wanted)
        if expression.type.is_number and wanted.kind is Kind.DOUBLE:
            return replace(expression, value=float(expression.value), type=wanted)
    return Cast(expression, wanted, span=expression.span)


# Expressions that can fail on some tuple.
#
# Spark may skip the evaluation of what it does not need: the rest of a condition, an operand next
# to a NULL, an unused column.  An expression that cannot fail may be skipped; one that can must not
# be. And only where something can fail, provisional rows are tried before they are emitted.

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
_SMALL = {  # results that are far from the ends of a BIGINT for any argument
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
    """Whether the result over some tuples can be an error: a sum may leave its type, and
    user-defined aggregates may fail.
    """
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
    """Whether decimal arithmetic can overflow: the type of a sum or product has room for it, up to
    38 digits.
    """
    if call.function in ("add", "subtract", "multiply", "div"):
        return call.type.precision == 38
    if call.function in ("round", "floor", "ceil"):
        return call.arguments[0].type.precision == 38 or len(call.arguments) > 1
    return False


def range_of(expression: Expression) -> Range:
    """Range of the value, for a type whose values are numbers internally."""
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
    """Range before it is cut to that of the type; None if nothing is computed."""
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


# Expressions that pass progress on: those that never decrease while their columns increase.

_PROGRESSING_KINDS = (Kind.TIMESTAMP, Kind.DATE, Kind.INT, Kind.BIGINT, Kind.DECIMAL)


# Local times go back at the end of summer time; their bounds allow for that.
AT_TIME_ZONE = ("at_time_zone", "lowest_at_time_zone", "highest_at_time_zone")


def rises_with(expression: Expression) -> tuple[Column, ...]:
    """Columns with which the expression rises; none if it may decrease.

    `ts`, `ts + INTERVAL 1 MINUTE`, `date_trunc('hour', ts)`, `CAST(ts AS DATE)` rise with `ts`,
    and `greatest(a.ts, b.ts)` with both.  So does `ts AT TIME ZONE 'Europe/Berlin'`, except in the
    hour that occurs twice: bounds are lower by as much before it (see `promised` in
    `expressions/evaluation.py`).
    """
    if isinstance(expression, Column):
        return (expression,) if expression.type.kind in _PROGRESSING_KINDS else ()
    risen = [rises_with(operand) for operand in rising_operands(expression)]
    return tuple(column for each in risen for column in each) if all(risen) else ()


def rising_operands(expression: Expression) -> tuple[Expression, ...]:
    """Operands with which the expression rises, all others being constant; none if it may
    decrease.
    """
    if expression.type.kind not in _PROGRESSING_KINDS:
        return ()
    match expression:
        case Cast(operand, _, False) if operand.type.kind in _PROGRESSING_KINDS:
            return (operand,)
        case Call("add" | "subtract", (inner, constant)) if written(constant) is not None:
            return (inner,)
        case Call("add", (constant, inner)) if written(constant) is not None:
            return (inner,)
        case Call("multiply", (factor, inner)) if _positive(factor):
            return (inner,)
        case Call("multiply", (inner, factor)) if _positive(factor):
            return (inner,)
        case Call("add_months", (inner, months)) if expression.type.kind is Kind.DATE:
            return (inner,) if written(months) is not None else ()
        case Call("greatest" | "least", arguments):
            return arguments
        case Call("promised_as", (_, lower)):
            return (lower,)
        case Call(name, (inner, zone)) if name in AT_TIME_ZONE and _is_time_zone(zone):
            return (inner,)
        case Call("time_bucket" | "number_bucket", (width, inner, *origin)) if _positive(width):
            return (inner,) if all(written(each) is not None for each in origin) else ()
        case Call(name, arguments, _, None) if name in SCALARS and SCALARS[name].monotone:
            rest = all(written(argument) is not None for argument in arguments[:-1])
            return arguments[-1:] if rest else ()
        case _:
            return ()


def written(constant: Expression) -> Any:
    """Value of a literal as written, without the conversions that the types of other operands
    require: `1` in `price + 1`. None if there is no literal, or for NULL.
    """
    while isinstance(constant, Cast) and not constant.tries:
        constant = constant.operand
    return constant.value if isinstance(constant, Literal) else None


def is_steady(expression: Expression) -> bool:
    """Whether the value itself never decreases where the columns it rises with increase. For
    windows of other lengths than the earliest, and for local times, only bounds do.
    """
    if isinstance(expression, Call) and expression.function in ("promised_as", *AT_TIME_ZONE):
        return False
    return all(is_steady(each) for each in rising_operands(expression))


def _is_time_zone(zone: Expression) -> bool:
    name = written(zone)
    return isinstance(name, str) and time_zone(name) is not None


def _positive(factor: Expression) -> bool:
    value = written(factor)
    return isinstance(value, int | float | Decimal) and value > 0


# Comparisons of an expression with constants.

ORDERED = (Kind.INT, Kind.BIGINT, Kind.DATE, Kind.TIMESTAMP, Kind.DOUBLE)
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class Comparison(NamedTuple):
    """Comparison of a value with constants."""

    function: str  # "eq" also for one of several constants
    value: Expression
    constants: list[Any]


def comparison(condition: Expression) -> Comparison | None:
    """Read a condition as a comparison, None if it is none; `x IN (1, 2)` is one with two
    constants.
    """
    if not isinstance(condition, Call):
        return None
    first, *others = condition.arguments
    function = condition.function
    if function in COMPARISONS and isinstance(first, Literal):
        first, others, function = others[0], [first], _MIRRORED.get(function, function)
    if function == "in":
        function = "eq"
    elif function not in COMPARISONS:
        return None
    constants = [each.value for each in others if isinstance(each, Literal)]
    if isinstance(first, Literal) or len(constants) < len(others):
        return None
    if any(each is None or each != each for each in constants):
        return None
    return Comparison(function, first, constants)


class BetweenConstants(NamedTuple):
    """A value lies between two others, both included; None: unbounded on that side."""

    value: Expression
    low: Any
    high: Any


def needed_for(predicate: Expression) -> BetweenConstants | None:
    """Range that a value must have for a tuple to pass a filter. Rows without a value do not pass;
    nothing follows for NaN.

    >>> from penstock.model.types import BIGINT, BOOLEAN
    >>> from penstock.plan.expressions import Column
    >>> x = Column("x", BIGINT)
    >>> above = Call("gt", (x, Literal(3, BIGINT)), BOOLEAN)
    >>> below = Call("lt", (x, Literal(9, BIGINT)), BOOLEAN)
    >>> found = needed_for(Call("and", (above, below), BOOLEAN))
    >>> found.low, found.high
    (4, 8)
    """
    found: dict[Expression, BetweenConstants] = {}
    for each in conjuncts(predicate):
        within = _between_constants(each)
        if within is not None:
            known = found.get(within.value)
            found[within.value] = within if known is None else _both(known, within)
    return max(found.values(), key=_ends, default=None)


def _between_constants(condition: Expression) -> BetweenConstants | None:
    compared = comparison(condition)
    if compared is None or not compared.constants:
        return None
    function, value, constants = compared
    if value.type.kind is Kind.STRING:
        return BetweenConstants(value, min(constants), max(constants)) if function == "eq" else None
    if value.type.kind not in ORDERED:
        return None
    step = 0 if value.type.kind is Kind.DOUBLE else 1
    match function:
        case "eq":
            return BetweenConstants(value, min(constants), max(constants))
        case "lt" | "le":
            return BetweenConstants(value, None, constants[0] - (step if function == "lt" else 0))
        case "gt" | "ge":
            return BetweenConstants(value, constants[0] + (step if function == "gt" else 0), None)
        case _:
            return None


def _both(one: BetweenConstants, other: BetweenConstants) -> BetweenConstants:
    lows = [each.low for each in (one, other) if each.low is not None]
    highs = [each.high for each in (one, other) if each.high is not None]
    return BetweenConstants(one.value, max(lows, default=None), min(highs, default=None))


def _ends(within: BetweenConstants) -> int:
    """Selectivity, for comparison: a single value is better than a range, and a range better than
    half of one.
    """
    return sum(each is not None for each in within[1:]) + int(within.low == within.high)
