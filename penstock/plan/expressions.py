"""Bound expressions: every name resolved, every type known, every conversion explicit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.errors import PlanError, Span
from penstock.functions.aggregates import AggregateFunction
from penstock.functions.operators import SYMBOLS
from penstock.functions.scalar import SCALARS
from penstock.functions.user_functions import UserFunction
from penstock.model.calendar import format_date, format_timestamp
from penstock.model.duration import format_duration
from penstock.model.schema import Field, Schema
from penstock.model.types import BIGINT, BOOLEAN, Kind, Type

if TYPE_CHECKING:
    from penstock.plan.streams import StreamDefinition

COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OTHERS = {"and", "or", "not", "negate", "is_null", "is_distinct", "in", "like", "ilike"}
_OTHERS |= {"promised_as"}  # see scalars/bounds.py
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
    """A constant; `value` follows the conventions of `model.types` (times are integers)."""

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
    """A scalar function or operator.  `and`, `or` and `in` take any number of arguments, so that
    long chains stay flat."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    user: UserFunction | None = None  # what is called, if it is a function of the user's
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
    """A conversion; one that fails is an error, or NULL if it only tries."""

    operand: Expression
    type: Type
    tries: bool = False
    span: Span | None = _span()

    def __str__(self) -> str:
        return f"{'TRY_' * self.tries}CAST({self.operand} AS {self.type})"


@dataclass(frozen=True, slots=True)
class TableValue:
    """The value of a query over tables alone: the only column of the only row of `table`.  Binding
    puts it beside the tuples (see `plan/table_values.py`), so no engine meets one."""

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
    """An expression under the name of an output column."""

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
    """The expression and everything in it, outermost first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def columns_of(expression: Expression) -> list[Column]:
    return [part for part in walk(expression) if isinstance(part, Column)]


def conjuncts(predicate: Expression) -> tuple[Expression, ...]:
    """The predicates that must all hold."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return predicate.arguments
    return (predicate,)


def all_of(predicates: list[Expression]) -> Expression | None:
    """One predicate that holds when all do; None when there are none."""
    if len(predicates) <= 1:
        return predicates[0] if predicates else None
    return Call("and", tuple(predicates), BOOLEAN)


def cast_to(expression: Expression, wanted: Type) -> Expression:
    """The expression as `wanted`; constants are converted at once where nothing can go wrong."""
    if expression.type == wanted:
        return expression
    if isinstance(expression, Literal):
        if expression.value is None or (expression.type.is_integer and wanted == BIGINT):
            return replace(expression, type=wanted)
        if expression.type.is_number and wanted.kind is Kind.DOUBLE:
            return replace(expression, value=float(expression.value), type=wanted)
    return Cast(expression, wanted, span=expression.span)
