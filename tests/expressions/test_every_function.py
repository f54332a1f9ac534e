"""Every function and operator on every type it takes: columns of odd values, and constants."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from penstock.errors import BindError
from penstock.functions.scalar_functions import SCALARS
from penstock.functions.signatures import Family, arithmetic
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    EXACT,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Kind,
    Schema,
    Type,
    decimal_type,
)
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal
from penstock.sql.binder.expressions import castable

LONG = 1_000
SMALL, MIDDLE, LARGE = decimal_type(5, 2), decimal_type(18, 9), decimal_type(38, 12)
WHOLE = decimal_type(38, 0)
TYPES = [
    *(BOOLEAN, INT, BIGINT, DOUBLE, SMALL, MIDDLE, LARGE, WHOLE),
    *(STRING, BINARY, DATE, TIMESTAMP, INTERVAL),
]
NUMBERS = [each for each in TYPES if each.is_number]

_DAY = 86_400_000_000
_WARNING = struct.unpack("<d", b"\1\0\0\0\0\0\xf0\x7f")[0]  # a NaN that NumPy warns of
_INT64 = [-(2**63), -(2**63) + 1, 2**63 - 1]
_YEARS = [-62_167_219_200_000_000, -62_198_755_200_000_000, 253_402_300_800_000_000]
_ODD: dict[Kind, list[Any]] = {
    Kind.BOOLEAN: [True, False],
    Kind.INT: [0, 1, -1, 2, 7, -15, 25, 1_000, -(2**31), 2**31 - 1],
    Kind.BIGINT: [0, 1, -1, 2, 3, -7, 20, -155, 2**31, 2**53 + 1, 5 * 10**18, *_INT64],
    Kind.DOUBLE: [
        *(0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 2.675, 1.005, 0.1, 100.0),
        *(1e10, 12345678901.5, 1e15 + 0.5, 2.0**52 + 0.5, 2.0**53, 1e16, 1e22, 1e23, 1e300),
        *(1e-4, 9.5e-5, 5e-324, -(2.0**31), 2.0**31, 2.0**63, -(2.0**63), 99999.995),
        *(math.inf, -math.inf, math.nan, _WARNING),
    ],
    Kind.STRING: [
        *(
            "",
            " ",
            " ab ",
            "abc",
            "Abc,b,,c",
            "ß",
            "ΑΣ ς",
            "e\u0301é",
            "😀x😀",
            "ı\0İ",
            "a\nb",
            "%_\\",
        ),
        *("0", "-12", " 7 ", "+1.5", "1e3", "NaN", "-inf", "TRUE", "no", "0x1F", "00fF", "1e400"),
        *("2020-02-29", "2021-02-29", "2024-01-31 23:59:59.5", "1969-12-31T23+01", "x" * 40),
        *("9223372036854775808", "123456789012345678901234567890.5", "0.000000000000000001"),
    ],
    Kind.BINARY: [b"", b"abc", b"abd", b"\xff", "é".encode()],
    Kind.DATE: [0, -1, 58, 59, 18_321, 2_932_896, 2_932_897, -719_529, -(2**31), 2**31 - 1],
    Kind.TIMESTAMP: [0, -1, 1, _DAY - 1, -_DAY, 951_782_400_123_456, *_YEARS, *_INT64],
    Kind.INTERVAL: [0, 1, -1, _DAY, *_INT64],
}


def odd_values(sql_type: Type) -> list[Any]:
    if sql_type.kind is not Kind.DECIMAL:
        return [None, *_ODD[sql_type.kind]]
    end = 10**sql_type.precision - 1
    digits = [0, 1, -1, 5, -5, 49, 50, -150, 12345, end, -end, end // 2, end // 10]
    return [None, *(Decimal(number).scaleb(-sql_type.scale, EXACT) for number in digits)]


def rows_of(types: tuple[Type, ...], count: int) -> list[tuple[Any, ...]]:
    """Combinations of odd values, evenly picked; repeated if there are too few."""
    combined = list(itertools.product(*map(odd_values, types)))
    step = max(1, len(combined) // max(1, count))
    return list(itertools.islice(itertools.cycle(combined[::step]), count))


# --- what there is to try ------------------------------------------------------------------------

_FAMILIES: dict[Family, list[Type]] = {
    Family.NUMBER: NUMBERS,
    Family.DOUBLE: [DOUBLE],
    Family.INTEGER: [BIGINT],
    Family.STRING: [STRING],
    Family.BOOLEAN: [BOOLEAN],
    Family.TIME: [TIMESTAMP, DATE],
    Family.TIMESTAMP: [TIMESTAMP],
    Family.INTERVAL: [INTERVAL],
}
_UNITS = ["microsecond", "MILLISECOND", "second", "minute", "hour", "day", "week", "month"]
_CONSTANTS: dict[str, list[tuple[Any, ...]]] = {
    "substr": [(2, 3), (-3, 2), (0, 2), (-(2**62), 2**62 + 2), (2**63 - 1, 2**63 - 1), (1, -1)],
    "left": [(2,), (0,), (2**63 - 1,)],
    "right": [(2,), (-1,), (2**63 - 1,)],
    "replace": [("b", "xyz"), ("", "z"), ("é", "")],
    "split_part": [(",", 1), (",", 3), ("", 1), ("", 2), (",", 0), ("b", 2**62)],
    "starts_with": [("",), ("a",), ("😀",)],
    "ends_with": [("",), ("c",), ("😀",)],
    "contains": [("",), ("b",), ("é",)],
    "strpos": [("",), ("b",), ("😀",)],
    "round": [(places,) for places in (0, 1, 2, 9, 22, 23, -1, -2, -15, -16, -19, -40, 10**18)],
    "like": [
        (pattern,)
        for pattern in (
            "",
            "%",
            "abc",
            "a%",
            "%c",
            "%b%",
            "_b_",
            "%b%c",
            "%\\%%",
            "a_b",
            "\\",
            "%_",
        )
    ],
    "power": [(2.0,), (-1.0,), (0.5,)],
    "concat": [("x",), ("x", "")],
    "json_get": [("$",), ("$.a[0]",), ("$x",), ("a",)],
    "json_text": [("$",), ("$.a[0]",), ("a",)],
    "at_time_zone": [("UTC",), ("Europe/Berlin",), ("America/New_York",), ("Nowhere",)],
    "shiftleft": [(0,), (1,), (63,), (64,), (-1,)],
    "shiftright": [(0,), (1,), (63,), (64,), (-1,)],
    "add_months": [(1,), (-1,), (12,), (-13,), (2**40,), (120_000,)],
    "split_index": [(",", 0), (",", 2), ("", 0), ("", 1), (",", -1), ("b", 2**62)],
    "regexp_like": [("b", ""), ("^a.*C$", "i"), ("", ""), ("é|😀", "s"), ("(", "")],
    "regexp_count": [("b", ""), ("[a-c]", "i"), ("", ""), (".", "s")],
    "regexp_extract": [("b.", 0, ""), ("(A)(b)?", 2, "i"), ("[^(]", 0, ""), ("a", 1, "")],
    "regexp_replace": [
        ("b", "<$0>", ""),
        ("(a)(b)", r"\2\1", "i"),
        ("", "-", ""),
        ("a", "\\x", ""),
    ],
    "date_format": [
        ("yyyy-MM-dd HH:mm:ss.SSSSSS",),
        ("EEE, d MMM yy h 'o''clock' a",),
        ("y-D-w-e EEEE MMMM QQQ k K SSSSSSSSS XXX Z z x",),
        ("''",),
        ("b",),
    ],
    "to_timestamp": [("yyyy-MM-dd",), ("yyyy-MM-dd HH:mm:ss.S",), ("y",), ("yyyy-MM-dd'T'HHX",)],
}
_CONSTANTS["try_to_timestamp"] = _CONSTANTS["to_timestamp"]
_LITERALS = {int: BIGINT, float: DOUBLE, str: STRING}
_CONSTANTS["ilike"] = [*_CONSTANTS["like"], ("%ABC%",), ("%i%",), ("SS",), ("%σ",)]


_NESTED = {Family.ARRAY, Family.MAP, Family.COLLECTION, Family.TEXTS}  # see test_nested.py


def functions() -> Iterator[tuple[str, tuple[Type, ...]]]:
    for name, function in SCALARS.items():
        families = function.signature.families
        if Family.ALIKE in families or _NESTED & set(families):
            continue
        for types in itertools.product(*(_FAMILIES[family] for family in families)):
            for optional in range(function.signature.optional + 1):
                yield name, types[: len(types) - optional]
    for name in ("like", "ilike"):
        yield name, (STRING, STRING)
    for sql_type in TYPES:
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "is_distinct", "nullif", "coalesce"):
            yield name, (sql_type, sql_type)
        for name in ("greatest", "least", "in"):
            yield name, (sql_type, sql_type, sql_type)
        yield "is_null", (sql_type,)
        yield "if", (BOOLEAN, sql_type, sql_type)
        if (sql_type.is_number or sql_type == INTERVAL) and sql_type != INT:
            yield "negate", (sql_type,)
    for name in ("and", "or"):
        yield name, (BOOLEAN, BOOLEAN, BOOLEAN)
    yield "not", (BOOLEAN,)


def operators() -> Iterator[tuple[str, tuple[Type, Type]]]:
    for name in ("add", "subtract", "multiply", "divide", "div", "mod"):
        seen = set()
        for left, right in itertools.product(TYPES, repeat=2):
            try:
                types = arithmetic(name, left, right)
            except BindError:
                continue
            if (types.left, types.right) not in seen:
                seen.add((types.left, types.right))
                yield name, (types.left, types.right)


def result_type(name: str, types: tuple[Type, ...]) -> Type:
    if name in SCALARS:
        return SCALARS[name].returns(types)
    if name == "negate":
        return types[0]
    if name in ("add", "subtract", "multiply", "divide", "div", "mod"):
        return arithmetic(name, *types).result
    return BOOLEAN


def shapes(name: str, schema: Schema) -> Iterator[tuple[Expression, ...]]:
    """The arguments as columns, then with constants."""
    columns = tuple(Column.of(field) for field in schema)
    types = [field.type for field in schema]
    if name in ("date_trunc", "date_part"):
        for unit in [*_UNITS, "quarter", "year", *(["epoch"] if name == "date_part" else [])]:
            yield Literal(unit, STRING), columns[1]
        return
    yield columns
    if name in _CONSTANTS:
        for constants in _CONSTANTS[name]:
            few = constants if name == "concat" else constants[: len(types) - 1]
            yield columns[0], *(Literal(value, _LITERALS[type(value)]) for value in few)
        return
    for position in range(len(columns)):
        every = odd_values(types[position])
        for value in every[:: max(1, len(every) // 10)]:
            literal = Literal(value, types[position])
            yield *columns[:position], literal, *columns[position + 1 :]
    if name in ("in", "greatest", "least"):
        every = odd_values(types[-1])
        for values in (every, every[1:], every[1:3]):
            yield columns[0], *(Literal(value, types[-1]) for value in values)


_EVERY = [*functions(), *operators()]


@pytest.mark.parametrize(
    ("name", "types"),
    _EVERY,
    ids=[f"{name}({', '.join(map(str, types))})" for name, types in _EVERY],
)
def test_function(
    agree: Callable[..., None], schema_of: Callable[..., Schema], name: str, types: tuple[Type, ...]
) -> None:
    schema = schema_of(*types)
    rows = rows_of(types, 40)
    result = result_type(name, types)
    for arguments in shapes(name, schema):
        agree(Call(name, arguments, result), schema, rows, before=3)
    first = Call(name, next(shapes(name, schema)), result)
    for count in (0, 1, LONG):
        agree(first, schema, rows_of(types, count))


_CASTS = [
    (given, wanted)
    for given, wanted in itertools.product(TYPES, repeat=2)
    if castable(given, wanted) and wanted != INTERVAL
]


@pytest.mark.parametrize("tries", [False, True], ids=["cast", "try_cast"])
@pytest.mark.parametrize(("given", "wanted"), _CASTS, ids=[f"{a} to {b}" for a, b in _CASTS])
@pytest.mark.parametrize("count", [0, 1, LONG])
def test_cast(
    agree: Callable[..., None],
    schema_of: Callable[..., Schema],
    given: Type,
    wanted: Type,
    tries: bool,
    count: int,
) -> None:
    schema = schema_of(given)
    cast = Cast(Column.of(schema.fields[0]), wanted, tries)
    agree(cast, schema, rows_of((given,), count), before=5)
    if count == 1:
        for row in rows_of((given,), 12):
            agree(cast, schema, [row])
