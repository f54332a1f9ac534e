"""Families of argument types, and how a call's argument types are matched with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.errors import BindError
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTERVAL,
    NESTED,
    NULL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    array_of,
    common_type,
    map_of,
)


class Family(Enum):
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
    """The type that an argument of type `given` is converted to, or None if it does not fit."""
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
        """The types that the arguments are converted to.

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
