"""The SQL types with their Arrow types, the names of added columns, and schemas.

As plain Python values, timestamps, dates and intervals are integers (microseconds, days,
microseconds): exact over their whole range, where `datetime` ends at the year 9999. An ARRAY is a
tuple of values, a STRUCT a tuple of the values of its fields, a MAP a tuple of pairs.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import pyarrow as pa

from penstock.errors import PlanError, shortened


class Kind(Enum):
    """Kind of an SQL type, without its parameters."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and slow in look-ups by kind

    NULL = "NULL"  # the type of a bare NULL, until something gives it one
    BOOLEAN = "BOOLEAN"
    INT = "INT"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BINARY = "BINARY"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    INTERVAL = "INTERVAL"  # of expressions and results; streams do not carry it
    ARRAY = "ARRAY"
    STRUCT = "STRUCT"
    MAP = "MAP"


class Epoch(Enum):
    """Unit in which numbers count the time since 1970, for columns that hold times as numbers."""

    DAYS = "DAYS"
    SECONDS = "SECONDS"
    MILLISECONDS = "MILLISECONDS"
    MICROSECONDS = "MICROSECONDS"
    NANOSECONDS = "NANOSECONDS"


INTEGERS = (Kind.INT, Kind.BIGINT)
NUMBERS = (Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE)
NESTED = (Kind.ARRAY, Kind.STRUCT, Kind.MAP)
EPOCHS = {
    Kind.DATE: (Epoch.DAYS,),
    Kind.TIMESTAMP: (Epoch.SECONDS, Epoch.MILLISECONDS, Epoch.MICROSECONDS, Epoch.NANOSECONDS),
}
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
# Enough digits for any product of two DECIMAL(38) values, so that no sum is rounded on the way.
EXACT = decimal.Context(prec=120)


@dataclass(frozen=True, slots=True)
class Type:
    """An SQL type."""

    kind: Kind
    precision: int = 0  # of DECIMAL only
    scale: int = 0
    parts: tuple[tuple[str, Type], ...] = ()  # component types of an ARRAY, STRUCT or MAP, by name
    epoch: Epoch | None = None  # of a column that is read; expressions and results have none

    def __post_init__(self) -> None:
        if self.kind is Kind.DECIMAL:
            if not 1 <= self.precision <= 38:
                raise PlanError(f"DECIMAL precision {self.precision} is outside 1..38")
            if not 0 <= self.scale <= self.precision:
                raise PlanError(f"DECIMAL scale {self.scale} is outside 0..{self.precision}")
        if self.epoch is not None and self.epoch not in EPOCHS.get(self.kind, ()):
            units = [each.value for each in EPOCHS.get(self.kind, ())]
            raise PlanError(
                f"{self.kind.value} EPOCH {self.epoch.value} is no type",
                expected=f"{self.kind.value} EPOCH {' or '.join(units)}"
                if units
                else "EPOCH behind TIMESTAMP or DATE",
            )

    def __str__(self) -> str:
        if self.epoch is not None:
            return f"{self.kind.value} EPOCH {self.epoch.value}"
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        if self.kind is Kind.STRUCT:
            return f"STRUCT<{', '.join(f'{name} {part}' for name, part in self.parts)}>"
        if self.parts:
            return f"{self.kind.value}<{', '.join(str(part) for _, part in self.parts)}>"
        return str(self.kind.value)

    @property
    def a(self) -> str:
        """The type with its article, for messages: an INT, a DATE."""
        return f"{'an' if self.kind.value[0] in 'AEIOU' else 'a'} {self}"

    @property
    def plain(self) -> Type:
        """The type of the values, without the epoch of the column that they are read from."""
        if self.epoch is None and not self.parts:
            return self
        parts = tuple((name, part.plain) for name, part in self.parts)
        return Type(self.kind, self.precision, self.scale, parts)

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGERS

    @property
    def is_nested(self) -> bool:
        return self.kind in NESTED

    @property
    def item(self) -> Type:
        """The type of the items of an ARRAY, or of the values of a MAP."""
        return self.parts[-1][1]

    @property
    def arrow(self) -> pa.DataType:
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        if self.parts or self.kind is Kind.STRUCT:
            return nested_arrow(self, [part.arrow for _, part in self.parts])
        return _ARROW[self.kind]


NULL = Type(Kind.NULL)
BOOLEAN = Type(Kind.BOOLEAN)
INT = Type(Kind.INT)
BIGINT = Type(Kind.BIGINT)
DOUBLE = Type(Kind.DOUBLE)
STRING = Type(Kind.STRING)
BINARY = Type(Kind.BINARY)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
INTERVAL = Type(Kind.INTERVAL)

_ARROW: dict[Kind, pa.DataType] = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.INTERVAL: pa.duration("us"),
}


def nested_arrow(nested: Type, parts: Sequence[pa.DataType]) -> pa.DataType:
    """The Arrow type of an ARRAY, STRUCT or MAP with the given Arrow types for its parts."""
    match nested.kind:
        case Kind.ARRAY:
            return pa.list_(pa.field("element", parts[0]))
        case Kind.MAP:
            return pa.map_(parts[0], parts[1])
        case _:
            return pa.struct(
                [pa.field(name, part) for (name, _), part in zip(nested.parts, parts, strict=True)]
            )


def array_of(item: Type) -> Type:
    return Type(Kind.ARRAY, parts=(("element", item),))


def struct_of(fields: Sequence[tuple[str, Type]]) -> Type:
    names = [name.casefold() for name, _ in fields]
    if len(set(names)) < len(names):
        raise PlanError("two fields of a STRUCT have the same name")
    return Type(Kind.STRUCT, parts=tuple(fields))


def map_of(key: Type, value: Type) -> Type:
    if key.is_nested or key.kind is Kind.DOUBLE:
        raise PlanError(f"{key.a} cannot be the key of a MAP")
    return Type(Kind.MAP, parts=(("key", key), ("value", value)))


def decimal_type(precision: int, scale: int) -> Type:
    return Type(Kind.DECIMAL, precision, scale)


def from_arrow(arrow: pa.DataType) -> Type | None:
    """The SQL type that holds every value of an Arrow type, or None if there is none.

    >>> str(from_arrow(pa.uint32())), str(from_arrow(pa.timestamp("ns")))
    ('BIGINT', 'TIMESTAMP')
    """
    is_ = pa.types
    if is_.is_dictionary(arrow):
        return from_arrow(arrow.value_type)
    if is_.is_nested(arrow):
        return _nested_from_arrow(arrow)
    if is_.is_decimal(arrow):
        fits = arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision
        return decimal_type(arrow.precision, arrow.scale) if fits else None
    tests: list[tuple[bool, Type]] = [
        (is_.is_null(arrow), STRING),
        (is_.is_boolean(arrow), BOOLEAN),
        (is_.is_int8(arrow) or is_.is_int16(arrow) or is_.is_int32(arrow), INT),
        (is_.is_uint8(arrow) or is_.is_uint16(arrow), INT),
        (is_.is_integer(arrow) and arrow != pa.uint64(), BIGINT),
        (arrow == pa.uint64(), decimal_type(20, 0)),
        (is_.is_floating(arrow), DOUBLE),
        (is_.is_string(arrow) or is_.is_large_string(arrow) or is_.is_string_view(arrow), STRING),
        (is_.is_binary(arrow) or is_.is_large_binary(arrow) or is_.is_binary_view(arrow), BINARY),
        (is_.is_fixed_size_binary(arrow), BINARY),
        (is_.is_date(arrow), DATE),
        (is_.is_timestamp(arrow), TIMESTAMP),
        (is_.is_duration(arrow), INTERVAL),
    ]
    return next((sql_type for matches, sql_type in tests if matches), None)


def _nested_from_arrow(arrow: pa.DataType) -> Type | None:
    is_ = pa.types
    if is_.is_map(arrow):
        pair = [from_arrow(arrow.key_type), from_arrow(arrow.item_type)]
        if pair[0] is None or pair[1] is None or pair[0].is_nested or pair[0] == DOUBLE:
            return None
        return map_of(pair[0], pair[1])
    if is_.is_struct(arrow):
        names = [arrow.field(i).name for i in range(arrow.num_fields)]
        found = [from_arrow(arrow.field(i).type) for i in range(arrow.num_fields)]
        if not names or len({name.casefold() for name in names}) < len(names):
            return None
        fields = [(n, each) for n, each in zip(names, found, strict=True) if each is not None]
        return struct_of(fields) if len(fields) == len(names) else None
    if is_.is_list(arrow) or is_.is_large_list(arrow) or is_.is_fixed_size_list(arrow):
        item = from_arrow(arrow.value_type)
        return None if item is None else array_of(item)
    return None


def common_type(left: Type, right: Type) -> Type | None:
    """The narrowest type that both convert to implicitly, or None.

    >>> str(common_type(INT, decimal_type(5, 2))), str(common_type(DATE, TIMESTAMP))
    ('DECIMAL(12,2)', 'TIMESTAMP')
    """
    if left == right:
        return left
    if left.kind is Kind.NULL:
        return right
    if right.kind is Kind.NULL:
        return left
    if left.is_number and right.is_number:
        return _common_number(left, right)
    if {left.kind, right.kind} == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    if left.is_nested and left.kind is right.kind and len(left.parts) == len(right.parts):
        return _common_nested(left, right)
    return None


def _common_nested(left: Type, right: Type) -> Type | None:
    parts = []
    for (name, one), (other_name, other) in zip(left.parts, right.parts, strict=True):
        both = common_type(one, other)
        if both is None or name.casefold() != other_name.casefold():
            return None
        parts.append((name, both))
    return Type(left.kind, parts=tuple(parts))


def _common_number(left: Type, right: Type) -> Type:
    if Kind.DOUBLE in (left.kind, right.kind):
        return DOUBLE
    if Kind.DECIMAL in (left.kind, right.kind):
        left, right = as_decimal(left), as_decimal(right)
        scale = max(left.scale, right.scale)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        return decimal_type(min(38, whole + scale), scale)
    return BIGINT


def as_decimal(number: Type) -> Type:
    """The decimal type that holds every value of an exact number type."""
    if number.kind is Kind.INT:
        return decimal_type(10, 0)
    if number.kind is Kind.BIGINT:
        return decimal_type(19, 0)
    return number


# Names of columns that Penstock adds to those of the user, and that must not clash with them.
#
# Internally, such columns have names that cannot be written in SQL.  In results, they have their
# documented names, with a number appended if the user has a column of that name.

HIDDEN = "\0"  # first character of internal names of columns
LATE = ("late_bound", "missed_first", "missed_last", "amended")


def free_name(name: str, taken: Iterable[str]) -> str:
    """`name`, with a number appended if it is taken.

    >>> free_name("late_bound", ["k", "late_bound"])
    'late_bound_1'
    """
    used = set(taken)
    found, number = name, 0
    while found in used:
        number += 1
        found = f"{name}_{number}"
    return found


def late_names(names: Iterable[str]) -> list[str]:
    """Names of the columns of `LATE` next to columns with these names, which may be qualified by
    their relation, and whose unqualified names are avoided as well.

    >>> late_names(["s.k", "s.amended"])
    ['late_bound', 'missed_first', 'missed_last', 'amended_1']
    """
    given = list(names)
    taken = {*given, *(name.rpartition(".")[2] for name in given)}
    return [free_name(name, taken) for name in LATE]


# A schema: named, typed columns, each of which may belong to a relation of the FROM clause.


@dataclass(frozen=True, slots=True)
class Field:
    """A column: name, type, and the relation that it belongs to, if any."""

    name: str
    type: Type
    relation: str | None = None

    def __post_init__(self) -> None:
        if HIDDEN in self.name:
            raise PlanError(f"a column cannot be called {self.name!r}")

    def __str__(self) -> str:
        return f"{self.qualified} {self.type}"

    @property
    def qualified(self) -> str:
        return f"{self.relation}.{self.name}" if self.relation else self.name


@dataclass(frozen=True)
class Schema:
    """Ordered columns, distinct by name and relation."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        seen = set()
        for field in self.fields:
            if (field.relation, field.name) in seen:
                raise PlanError(f"two columns are called {field.qualified}")
            seen.add((field.relation, field.name))

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __str__(self) -> str:
        return ", ".join(map(str, self.fields))

    def __add__(self, other: Schema) -> Schema:
        return Schema(self.fields + other.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @cached_property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(each.qualified, each.type.arrow) for each in self.fields])

    @cached_property
    def _places(self) -> dict[tuple[str, str | None], int]:
        return {(each.name, each.relation): place for place, each in enumerate(self.fields)}

    def __reduce__(self) -> tuple[type[Schema], tuple[tuple[Field, ...]]]:
        """Pickle the fields alone: everything else follows from them."""
        return Schema, (self.fields,)

    def index(self, name: str, relation: str | None = None) -> int:
        """Position of a column; both parts of its name must be exactly as declared."""
        place = self._places.get((name, relation))
        if place is not None:
            return place
        known = ", ".join(field.qualified for field in self.fields)
        wanted = f"{relation}.{name}" if relation else name
        raise PlanError(f"no column {wanted} among {shortened(known)}")

    def under(self, relation: str | None) -> Schema:
        """These columns, belonging to `relation`."""
        return Schema(tuple(Field(field.name, field.type, relation) for field in self.fields))
