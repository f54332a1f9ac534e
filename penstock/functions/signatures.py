"""Argument types of functions: families, signatures, result types, and the types of arithmetic
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from penstock.errors import BindError
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    NESTED,
    NULL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    array_of,
    as_decimal,
    common_type,
    decimal_type,
    map_of,
)


class Family(Enum):
    """Family of types that an argument may have; the value describes it in messages."""

    ANY = "any type"
    ALIKE = "values of one type"  # all arguments of this family are brought to a common type
    ORDERED = "a value that can be ordered"
    NUMBER = "a number"
    DOUBLE = "a number, taken as DOUBLE"
    INTEGER = "a whole number"
    STRING = "a STRING"
    BOOLEAN = "a BOOLEAN"
    TIME = "a TIMESTAMP or DATE"
    TIMESTAMP = "a TIMESTAMP"
    INTERVAL = "a length of time"
    ARRAY = "an ARRAY"
    MAP = "a MAP"
    COLLECTION = "an ARRAY or MAP"
    TEXTS = "an ARRAY of STRINGs"


def accept(family: Family, given: Type) -> Type | None:
    """Type that an argument of type `given` is converted to, or None if it does not fit."""
    if given.kind is Kind.NULL:
        return _FOR_NULL.get(family, given)
    match family:
        case Family.ANY | Family.ALIKE:
            return given
        case Family.ORDERED:
            return given if given.kind not in (Kind.BINARY, *NESTED) else None
        case Family.NUMBER:
            return given if given.is_number else None
        case Family.DOUBLE:
            return DOUBLE if given.is_number else None
        case Family.INTEGER:
            return BIGINT if given.is_integer else None
        case Family.STRING:
            return given if given.kind is Kind.STRING else None
        case Family.BOOLEAN:
            return given if given.kind is Kind.BOOLEAN else None
        case Family.TIME:
            return given if given.kind in (Kind.TIMESTAMP, Kind.DATE) else None
        case Family.TIMESTAMP:
            return TIMESTAMP if given.kind in (Kind.TIMESTAMP, Kind.DATE) else None
        case Family.INTERVAL:
            return given if given.kind is Kind.INTERVAL else None
        case Family.ARRAY:
            return given if given.kind is Kind.ARRAY else None
        case Family.MAP:
            return given if given.kind is Kind.MAP else None
        case Family.COLLECTION:
            return given if given.kind in (Kind.ARRAY, Kind.MAP) else None
        case Family.TEXTS:
            return given if given == array_of(STRING) else None


_FOR_NULL = {
    Family.NUMBER: BIGINT,
    Family.DOUBLE: DOUBLE,
    Family.INTEGER: BIGINT,
    Family.STRING: STRING,
    Family.BOOLEAN: BOOLEAN,
    Family.TIME: TIMESTAMP,
    Family.TIMESTAMP: TIMESTAMP,
    Family.INTERVAL: INTERVAL,
    Family.ARRAY: array_of(STRING),
    Family.COLLECTION: array_of(STRING),
    Family.TEXTS: array_of(STRING),
    Family.MAP: map_of(STRING, STRING),
}


@dataclass(frozen=True, slots=True)
class Signature:
    """Argument families; the last `optional` may be left out, the last repeats if `variadic`."""

    families: tuple[Family, ...]
    optional: int = 0
    variadic: bool = False

    def __str__(self) -> str:
        words = [family.value for family in self.families]
        required = len(words) - self.optional
        shown = words[:required] + [f"[{word}]" for word in words[required:]]
        return "(" + ", ".join(shown) + (", …" if self.variadic else "") + ")"

    def convert(self, name: str, given: Sequence[Type]) -> tuple[Type, ...]:
        """Types that the arguments are converted to.

        >>> [str(t) for t in Signature((Family.ALIKE,), variadic=True).convert("f", [BIGINT, NULL])]
        ['BIGINT', 'BIGINT']
        """
        least = len(self.families) - self.optional
        if len(given) < least or (len(given) > len(self.families) and not self.variadic):
            raise BindError(
                f"{name} does not take {len(given)} argument{'s' * (len(given) != 1)}",
                expected=f"{name}{self}",
            )
        families = [self.families[min(i, len(self.families) - 1)] for i in range(len(given))]
        accepted = []
        for position, (family, argument) in enumerate(zip(families, given, strict=True), start=1):
            converted = accept(family, argument)
            if converted is None:
                raise BindError(
                    f"argument {position} of {name} is {argument.a}",
                    expected=family.value,
                )
            accepted.append(converted)
        return _make_alike(name, families, accepted)


def _make_alike(name: str, families: list[Family], types: list[Type]) -> tuple[Type, ...]:
    shared = NULL
    for family, sql_type in zip(families, types, strict=True):
        if family is Family.ALIKE:
            both = common_type(shared, sql_type)
            if both is None:
                raise BindError(
                    f"{name} mixes {shared} and {sql_type}", expected="values of one type"
                )
            shared = both
    return tuple(
        shared if family is Family.ALIKE else sql_type
        for family, sql_type in zip(families, types, strict=True)
    )


# Rules for the type of a call from the types of its arguments, and the form of an entry in the
# catalogue of scalar functions.

TypeRule: TypeAlias = Callable[[tuple[Type, ...]], Type]
Entry: TypeAlias = tuple[str, Signature, TypeRule, str]  # the last says what it is for


def always(sql_type: Type) -> TypeRule:
    return lambda _: sql_type


def like_first(arguments: tuple[Type, ...]) -> Type:
    return arguments[0]


def like_last(arguments: tuple[Type, ...]) -> Type:
    return arguments[-1]


def rounded(arguments: tuple[Type, ...]) -> Type:
    """Type of a number rounded to a whole one: integers and doubles keep theirs, decimals have no
    places.
    """
    if arguments[0].kind is Kind.DECIMAL:
        return decimal_type(38, 0)
    return arguments[0]


def round_type(arguments: tuple[Type, ...]) -> Type:
    return rounded(arguments) if len(arguments) == 1 else arguments[0]


def takes(*families: Family, optional: int = 0, variadic: bool = False) -> Signature:
    return Signature(families, optional, variadic)


# The types of `+ - * / DIV %`: those that the operands are converted to, and that of the result.
#
# Whole numbers are computed as BIGINT (an overflow is an error, never a wrong number), `/` gives a
# DOUBLE, decimals stay exact under `+ - *`.  Times and lengths of time combine as one would expect.

SYMBOLS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "div": "DIV", "mod": "%"}


class Arithmetic(NamedTuple):
    """Types of an arithmetic operation: those of the converted operands, and of the result."""

    left: Type
    right: Type
    result: Type


def arithmetic(operator: str, left: Type, right: Type) -> Arithmetic:
    """Resolve an operator for two operand types.

    >>> from penstock.model.types import INT
    >>> str(arithmetic("divide", INT, INT).result), str(arithmetic("add", INT, INT).result)
    ('DOUBLE', 'BIGINT')
    """
    left, right = _give_null_a_type(left, right), _give_null_a_type(right, left)
    found = (
        _numbers(operator, left, right)
        if left.is_number and right.is_number
        else _times(operator, left, right)
    )
    if found is None:
        raise BindError(f"{left} {SYMBOLS[operator]} {right} has no meaning")
    return found


def _give_null_a_type(one: Type, other: Type) -> Type:
    if one.kind is not Kind.NULL:
        return one
    if other.kind is Kind.NULL:
        return BIGINT
    return INTERVAL if other.kind in (Kind.TIMESTAMP, Kind.DATE) else other


def _numbers(operator: str, left: Type, right: Type) -> Arithmetic | None:
    if operator == "divide" or Kind.DOUBLE in (left.kind, right.kind):
        return None if operator == "div" else Arithmetic(DOUBLE, DOUBLE, DOUBLE)
    if left.is_integer and right.is_integer:
        return Arithmetic(BIGINT, BIGINT, BIGINT)
    left, right = as_decimal(left), as_decimal(right)
    if operator == "multiply":
        scale = left.scale + right.scale
        if scale > 38:
            raise BindError(f"{left} * {right} needs {scale} decimal places", expected="up to 38")
        precision = min(38, left.precision + right.precision + 1)
        return Arithmetic(left, right, decimal_type(precision, scale))
    if operator == "div":
        return Arithmetic(left, right, decimal_type(38, 0))
    both = common_type(left, right)
    assert both is not None
    wider = decimal_type(min(38, both.precision + 1), both.scale)
    return Arithmetic(both, both, wider if operator in ("add", "subtract") else both)


def _times(operator: str, left: Type, right: Type) -> Arithmetic | None:
    time = (Kind.TIMESTAMP, Kind.DATE)
    match operator, left.kind, right.kind:
        case "add" | "subtract", Kind.DATE, Kind.INT | Kind.BIGINT:
            return Arithmetic(DATE, BIGINT, DATE)
        case "subtract", Kind.DATE, Kind.DATE:
            return Arithmetic(DATE, DATE, BIGINT)
        case "add", Kind.INTERVAL, Kind.TIMESTAMP | Kind.DATE:
            return Arithmetic(INTERVAL, TIMESTAMP, TIMESTAMP)
        case "add" | "subtract", Kind.TIMESTAMP | Kind.DATE, Kind.INTERVAL:
            return Arithmetic(TIMESTAMP, INTERVAL, TIMESTAMP)
        case "subtract", _, _ if left.kind in time and right.kind in time:
            return Arithmetic(TIMESTAMP, TIMESTAMP, INTERVAL)
        case "add" | "subtract", Kind.INTERVAL, Kind.INTERVAL:
            return Arithmetic(INTERVAL, INTERVAL, INTERVAL)
        case "multiply", Kind.INTERVAL, Kind.INT | Kind.BIGINT:
            return Arithmetic(INTERVAL, BIGINT, INTERVAL)
        case "multiply", Kind.INT | Kind.BIGINT, Kind.INTERVAL:
            return Arithmetic(BIGINT, INTERVAL, INTERVAL)
        case _:
            return None
