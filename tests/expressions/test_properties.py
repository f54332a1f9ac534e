"""Random expressions over random batches agree with the reference evaluator, row by row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import cache
from itertools import product
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    NULL,
    STRING,
    TIMESTAMP,
    Field,
    Kind,
    Schema,
    Type,
    decimal_type,
)
from penstock.plan.expressions import Call, Case, Cast, Column, Expression, Literal, cast_to
from penstock.sql.binder.expressions import castable

DECIMALS = [decimal_type(*pair) for pair in ((5, 2), (18, 0), (18, 9), (20, 5), (38, 0), (38, 20))]
TYPES = [BOOLEAN, INT, BIGINT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, INTERVAL, *DECIMALS]
NUMBERS = [INT, BIGINT, DOUBLE, *DECIMALS]


# --- values --------------------------------------------------------------------------------------


def integers(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    ends = st.sampled_from([low, low + 1, high - 1, high])
    return st.one_of(
        st.integers(-3, 12), st.integers(-10_000, 10_000), ends, st.integers(low, high)
    )


def decimals(sql_type: Type) -> st.SearchStrategy[Decimal]:
    end = 10**sql_type.precision - 1
    digits = st.one_of(st.integers(-30, 30), st.sampled_from([-end, end]), st.integers(-end, end))
    return digits.map(lambda number: Decimal(number).scaleb(-sql_type.scale, EXACT))


_ODD_DOUBLES = [0.0, -0.0, 0.5, -0.5, 2.5, 1.005, 1e16, 1e-5, 2.0**53, 2.0**63, -(2.0**63), 1e22]
_TEXTS = [
    *(
        "",
        " ",
        " a b ",
        "abc",
        "aXa",
        "a,b,,c",
        "ß",
        "ΑΣ",
        "ﬁ é",
        "e\u0301",
        "😀x",
        "İı",
        "\0",
        "a\nb",
    ),
    *(
        "1",
        "-12",
        " 7 ",
        "1.5",
        "1e3",
        "nan",
        "true",
        "no",
        "0x1F",
        "00ff",
        "2020-02-29",
        "%",
        "\\",
    ),
    *("2024-01-31 23:59:59.5", "1969-12-31T23:00:00+01:00", "9223372036854775808"),
]
_PATTERNS = [
    "",
    "%",
    "_",
    "a%",
    "%b",
    "%a%",
    "a_c",
    "_%_",
    "%,%,%",
    "\\%",
    "a\\",
    "%s%",
    "K%",
    "\\__",
]
_DAY = 86_400_000_000
_TIMES = [
    0,
    -1,
    1,
    -_DAY,
    _DAY - 1,
    951_782_400_000_000,
    253_402_300_800_000_000,
    -62_135_596_800_000_001,
]

VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.INT: integers(32),
    Kind.BIGINT: integers(64),
    Kind.DOUBLE: st.sampled_from(_ODD_DOUBLES) | st.floats() | st.integers(-99, 99).map(float),
    Kind.STRING: st.sampled_from(_TEXTS) | st.text(max_size=6),
    Kind.BINARY: st.sampled_from([b"", b"abc", b"\xff", "é".encode()]) | st.binary(max_size=4),
    Kind.DATE: st.sampled_from([0, -1, 59, 18_321, 2_932_897]) | integers(32),
    Kind.TIMESTAMP: st.sampled_from(_TIMES) | integers(64),
    Kind.INTERVAL: st.sampled_from([0, 1, -1, _DAY]) | integers(64),
    Kind.NULL: st.none(),
}


def values(sql_type: Type) -> st.SearchStrategy[Any]:
    some = decimals(sql_type) if sql_type.kind is Kind.DECIMAL else VALUES[sql_type.kind]
    return st.none() | some | some | some


# --- expressions ---------------------------------------------------------------------------------

FAMILIES: dict[Family, list[Type]] = {
    Family.ANY: TYPES,
    Family.ALIKE: TYPES,
    Family.NUMBER: NUMBERS,
    Family.DOUBLE: [DOUBLE],
    Family.INTEGER: [BIGINT],
    Family.STRING: [STRING],
    Family.BOOLEAN: [BOOLEAN],
    Family.TIME: [TIMESTAMP, DATE],
    Family.TIMESTAMP: [TIMESTAMP],
    Family.INTERVAL: [INTERVAL],
}
OPERATORS = ["add", "subtract", "multiply", "divide", "div", "mod"]
OPERANDS = [
    *[(a, b) for a in NUMBERS for b in NUMBERS],
    *[(TIMESTAMP, INTERVAL), (INTERVAL, TIMESTAMP), (TIMESTAMP, TIMESTAMP), (DATE, BIGINT)],
    *[(DATE, DATE), (DATE, INTERVAL), (INTERVAL, INTERVAL), (INTERVAL, BIGINT), (BIGINT, INTERVAL)],
]
TRUNC_UNITS = ["microsecond", "second", "MINUTE", "hour", "day", "week", "month", "quarter", "year"]
PART_UNITS = [*TRUNC_UNITS, "millisecond", "isodow", "dayofyear", "epoch"]


@cache
def operators_giving(wanted: Type) -> list[tuple[str, Type, Type]]:
    """Those whose result is of that kind, if not of that very type."""
    found = []
    for name in OPERATORS:
        for left, right in OPERANDS:
            with suppress(BindError):
                if arithmetic(name, left, right).result.kind is wanted.kind:
                    found.append((name, left, right))
    return found


@cache
def functions_giving(wanted: Type) -> list[tuple[str, tuple[Type, ...]]]:
    found: list[tuple[str, tuple[Type, ...]]] = []
    for name, function in SCALARS.items():
        families = function.signature.families
        if not {Family.ARRAY, Family.MAP, Family.COLLECTION, Family.TEXTS} & set(families) and (
            Family.ALIKE not in families
        ):
            for types in product(*(FAMILIES[family] for family in families)):
                if function.returns(types).kind is wanted.kind:
                    found.append((name, types))
    if wanted.is_number or wanted == INTERVAL:
        found.append(("negate", (BIGINT if wanted == INT else wanted,)))
    return found


class Maker:
    """Draws expressions as the binder would make them."""

    def __init__(self, draw: Callable[..., Any], schema: Schema) -> None:
        self.draw = draw
        self.schema = schema

    def pick(self, options: list[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def of_type(self, wanted: Type, depth: int) -> Expression:
        if depth <= 0:
            return self.leaf(wanted)
        way = self.draw(st.integers(0, 9))
        if way <= 1:
            return self.leaf(wanted)
        if way == 2:
            return self.choice(wanted, depth)
        if way == 3:
            sources = [
                each
                for each in TYPES
                if castable(each, wanted) and each != wanted and wanted != INTERVAL
            ]
            if sources:
                inner = self.of_type(self.pick(sources), depth - 1)
                return Cast(inner, wanted, self.draw(st.booleans()))
        made = self.call(wanted, depth)
        return made if made is not None else self.choice(wanted, depth)

    def leaf(self, wanted: Type) -> Expression:
        columns = [Column.of(field) for field in self.schema if field.type == wanted]
        if columns and self.draw(st.integers(0, 3)):
            column: Expression = self.pick(columns)
            return column
        return Literal(self.draw(values(wanted)), wanted)

    def choice(self, wanted: Type, depth: int) -> Expression:
        name = self.pick(["case", "if", "coalesce", "nullif", "greatest", "least"])
        one, other = (self.of_type(wanted, depth - 1) for _ in range(2))
        condition = self.of_type(BOOLEAN, depth - 1)
        if name == "case":
            branches = [(condition, one)]
            if self.draw(st.booleans()):
                branches.append((self.of_type(BOOLEAN, depth - 1), self.leaf(wanted)))
            return Case(tuple(branches), other, wanted)
        if name == "if":
            return Call("if", (condition, one, other), wanted)
        if name == "nullif":
            return Call("nullif", (one, other), wanted)
        more = [self.leaf(wanted)] * self.draw(st.integers(0, 1))
        return Call(name, (one, other, *more), wanted)

    def call(self, wanted: Type, depth: int) -> Expression | None:
        """A function or operator that gives the wanted type, possibly after a conversion."""
        if wanted == BOOLEAN and self.draw(st.integers(0, 3)):
            return self.condition(depth)
        if self.draw(st.booleans()):
            operators = operators_giving(wanted)
            if operators:
                return self.operation(*self.pick(operators), wanted, depth)
        functions = functions_giving(wanted)
        return self.function(*self.pick(functions), wanted, depth) if functions else None

    def operation(self, name: str, left: Type, right: Type, wanted: Type, depth: int) -> Expression:
        types = arithmetic(name, left, right)
        operands = [self.of_type(left, depth - 1), self.of_type(right, depth - 1)]
        call = Call(
            name,
            (cast_to(operands[0], types.left), cast_to(operands[1], types.right)),
            types.result,
        )
        return cast_to(call, wanted)

    def function(self, name: str, types: tuple[Type, ...], wanted: Type, depth: int) -> Expression:
        function = SCALARS.get(name)
        if function is not None and function.signature.optional and self.draw(st.booleans()):
            types = types[:-1]
        arguments = [self.of_type(each, depth - 1) for each in types]
        if name in ("date_trunc", "date_part"):
            units = TRUNC_UNITS if name == "date_trunc" else PART_UNITS
            arguments[0] = Literal(self.pick(units), STRING)
        if name == "round" and len(arguments) == 2:
            few = Literal(self.draw(st.integers(-25, 25)), BIGINT)
            arguments[1] = self.pick(
                [few, Call("mod", (arguments[1], Literal(30, BIGINT)), BIGINT)]
            )
        if name == "concat":
            arguments += [self.leaf(STRING)] * self.draw(st.integers(0, 2))
        result = (
            types[0]
            if function is None
            else function.returns(tuple(each.type for each in arguments))
        )
        return cast_to(Call(name, tuple(arguments), result), wanted)

    def condition(self, depth: int) -> Expression:
        name = self.pick(
            [
                *("eq", "ne", "lt", "le", "gt", "ge", "is_distinct"),
                "and",
                "or",
                "not",
                "in",
                "is_null",
                "like",
                "ilike",
            ]
        )
        if name in ("like", "ilike"):
            text = self.of_type(STRING, depth - 1)
            pattern = (
                Literal(self.pick(_PATTERNS), STRING)
                if self.draw(st.booleans())
                else self.leaf(STRING)
            )
            return Call(name, (text, pattern), BOOLEAN)
        sql_type = BOOLEAN if name in ("and", "or", "not") else self.pick(TYPES)
        few = {"not": 1, "is_null": 1}.get(name, 2)
        arguments = [self.of_type(sql_type, depth - 1) for _ in range(few)]
        if name in ("and", "or", "in"):
            arguments += [self.leaf(sql_type) for _ in range(self.draw(st.integers(0, 3)))]
        if name == "in" and self.draw(st.booleans()):
            arguments[1:] = [Literal(self.draw(values(sql_type)), sql_type) for _ in arguments[1:]]
        return Call(name, tuple(arguments), BOOLEAN)


@st.composite
def cases(draw: Callable[..., Any]) -> tuple[Expression, Schema, list[tuple[Any, ...]], int]:
    types = draw(st.lists(st.sampled_from([*TYPES, NULL]), max_size=6))
    schema = Schema(tuple(Field(f"c{i}", sql_type) for i, sql_type in enumerate(types)))
    wanted = draw(st.sampled_from(types or TYPES))
    wanted = STRING if wanted == NULL else wanted
    expression = Maker(draw, schema).of_type(wanted, draw(st.integers(1, 3)))
    rows = draw(st.lists(st.tuples(*map(values, types)), max_size=6))
    return expression, schema, rows, draw(st.integers(0, 9))


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_agreement(agree: Callable[..., None], case: Any) -> None:
    agree(*case)
