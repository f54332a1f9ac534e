"""Operators, CASE and three-valued logic by example, with the types that come out."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

import penstock as ps
from tests.reference.helpers import Stream, ask, tuples, value

TRUTHS = (True, False, None)
BIG = Decimal("12345678901234567890123456789012345678")  # 38 digits
MINUS_BIG = Decimal("-12345678901234567890123456789012345678")


# --- truth values --------------------------------------------------------------------------------


def both(one: Any, other: Any) -> Any:
    """AND is the lesser, if false < unknown < true."""
    return min((one, other), key=lambda v: {False: 0, None: 1, True: 2}[v])


def either(one: Any, other: Any) -> Any:
    return max((one, other), key=lambda v: {False: 0, None: 1, True: 2}[v])


def strict(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: None if None in (one, other) else function(one, other)


TABLES: dict[str, Callable[[Any, Any], Any]] = {
    "x AND y": both,
    "x OR y": either,
    "NOT (x AND y)": lambda x, y: {True: False, False: True, None: None}[both(x, y)],
    "x = y": strict(operator.eq),
    "x <> y": strict(operator.ne),
    "x != y": strict(operator.ne),
    "x < y": strict(operator.lt),
    "x IN (y)": strict(operator.eq),
    "x NOT IN (y)": strict(operator.ne),
    "x IN (y, TRUE)": lambda x, y: either(strict(operator.eq)(x, y), x),
    "x IS DISTINCT FROM y": lambda x, y: x is not y,
    "x IS NOT DISTINCT FROM y": lambda x, y: x is y,
    "CASE WHEN x THEN y ELSE NOT y END": lambda x, y: y if x or y is None else not y,
    "CASE x WHEN y THEN TRUE ELSE FALSE END": lambda x, y: x is not None and x is y,
    "CASE WHEN x THEN y END": lambda x, y: y if x else None,
    "if(x, y, x)": lambda x, y: y if x else x,
    "coalesce(x, y)": lambda x, y: y if x is None else x,
    "nullif(x, y)": lambda x, y: None if x is y else x,
}


@pytest.mark.parametrize("expression", TABLES)
def test_truth_table(expression: str) -> None:
    for x, y in product(TRUTHS, TRUTHS):
        found = value(expression, x=("BOOLEAN", x), y=("BOOLEAN", y))
        assert found is TABLES[expression](x, y), (x, y)


@pytest.mark.parametrize(
    ("expression", "expected"),  # for TRUE, FALSE and NULL
    [
        ("NOT x", (False, True, None)),
        ("x IS NULL", (False, False, True)),
        ("x IS NOT NULL", (True, True, False)),
        ("x IS TRUE", (True, False, False)),
        ("x IS NOT TRUE", (False, True, True)),
        ("x IS FALSE", (False, True, False)),
        ("x IS NOT FALSE", (True, False, True)),
        ("x = NULL", (None, None, None)),
    ],
)
def test_one_truth_value(expression: str, expected: tuple[Any, ...]) -> None:
    assert tuple(value(expression, x=("BOOLEAN", x)) for x in TRUTHS) == expected


def test_where_takes_only_true() -> None:
    query = ask(
        "SELECT n FROM s WHERE p",
        s=Stream("n INT, p BOOLEAN", list(enumerate([True, False, None]))),
    )
    assert tuples(query.collect()) == [(0,)]


# --- operators -----------------------------------------------------------------------------------

EXAMPLES = [
    ("1 + 2", 3),
    ("2 - 3", -1),
    ("2 * 3", 6),
    ("7 / 2", 3.5),
    ("6 / 3", 2.0),
    ("7 DIV 2", 3),
    ("-7 DIV 2", -3),
    ("7 DIV -2", -3),
    ("7 % 3", 1),
    ("-7 % 3", -1),
    ("7 % -3", 1),
    ("7.5 % 2", Decimal("1.5")),
    ("-7.5e0 % 2", -1.5),
    ("7.5 DIV 2", Decimal(3)),
    ("2 + 3 * 4", 14),
    ("(2 + 3) * 4", 20),
    ("10 - 4 - 3", 3),
    ("-(2)", -2),
    ("- -2", 2),
    ("1.10 + 2.2", Decimal("3.30")),
    ("1.1 * 1.1", Decimal("1.21")),
    ("0.1 + 0.2", Decimal("0.3")),
    ("0.1e0 + 0.2e0", 0.30000000000000004),
    ("1 + 1.5", Decimal("2.5")),
    ("1.5 + 1e0", 2.5),
    ("1 / 0", None),
    ("1 DIV 0", None),
    ("1 % 0", None),
    ("1e0 / 0e0", None),
    ("1.5 % 0.0", None),
    ("1 + NULL", None),
    ("NULL / 0", None),
    ("1 < 1.5", True),
    ("1 = 1.0", True),
    ("1 = 1e0", True),
    ("'a' < 'b'", True),
    ("'Z' < 'a'", True),
    ("'a' < 'ab'", True),
    ("2 BETWEEN 1 AND 3", True),
    ("3 BETWEEN 1 AND 3", True),
    ("1 BETWEEN 3 AND 1", False),
    ("4 NOT BETWEEN 1 AND 3", True),
    ("NULL BETWEEN 1 AND 3", None),
    ("4 BETWEEN NULL AND 3", False),
    ("2 BETWEEN NULL AND 3", None),
    ("1 IN (1, 2)", True),
    ("3 IN (1, NULL)", None),
    ("1 IN (1, NULL)", True),
    ("3 NOT IN (1, NULL)", None),
    ("NULL IN (1)", None),
    ("1 IN (1.0)", True),
    ("'a' || 'b' || 'c'", "abc"),
    ("'a' || NULL", None),
    ("'abc' LIKE 'a%'", True),
    ("'abc' LIKE '_b_'", True),
    ("'abc' LIKE 'b'", False),
    ("'ABC' LIKE 'a%'", False),
    ("'ABC' ILIKE 'a%'", True),
    ("'a%c' LIKE 'a\\%c'", True),
    ("'abc' LIKE 'a\\%c'", False),
    ("'a.c' LIKE 'a.c'", True),
    ("'abc' LIKE 'a.c'", False),
    ("'a\nc' LIKE 'a_c'", True),
    ("'' LIKE '%'", True),
    ("'abc' LIKE NULL", None),
    ("NOT 'abc' LIKE 'a%'", False),
    ("CASE WHEN 1 > 2 THEN 'a' WHEN 2 > 1 THEN 'b' ELSE 'c' END", "b"),
    ("CASE 3 WHEN 1 THEN 'a' WHEN 3 THEN 'b' END", "b"),
    ("CASE 4 WHEN 1 THEN 'a' END", None),
    ("CASE NULL WHEN NULL THEN 'a' ELSE 'b' END", "b"),
    ("CASE WHEN TRUE THEN 1 ELSE 2.5 END", Decimal("1.0")),
    ("CASE WHEN FALSE THEN CAST('1' || 'x' AS INT) ELSE 2 END", 2),  # not evaluated
]


@pytest.mark.parametrize(("expression", "expected"), EXAMPLES, ids=[e for e, _ in EXAMPLES])
def test_examples(expression: str, expected: Any) -> None:
    found = value(expression)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'abc' NOT LIKE 'a%'", False),
        ("'abc' NOT LIKE 'b%'", True),
        ("'ABC' NOT ILIKE 'a%'", False),
    ],
)
def test_not_like(expression: str, expected: bool) -> None:
    assert value(expression) is expected


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "DIV", "%"])
def test_null_operands(sign: str) -> None:
    for x, y in ((None, 1), (1, None), (None, None)):
        assert value(f"x {sign} y", x=("INT", x), y=("INT", y)) is None


@pytest.mark.parametrize(
    ("sign", "compare"),
    [
        ("=", operator.eq),
        ("<>", operator.ne),
        ("<", operator.lt),
        ("<=", operator.le),
        (">", operator.gt),
        (">=", operator.ge),
    ],
)
def test_comparisons(sign: str, compare: Callable[[Any, Any], bool]) -> None:
    for x, y in product((-1, 0, 1), repeat=2):
        assert value(f"x {sign} y", x=("INT", x), y=("BIGINT", y)) is compare(x, y)
        decimals = {"x": ("DECIMAL(5,2)", Decimal(x)), "y": ("DOUBLE", float(y))}
        assert value(f"x {sign} y", **decimals) is compare(x, y)


# --- what fits, and what does not ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "x", "expected"),
    [
        ("x + 1", 2**31 - 1, 2**31),  # INT is computed as BIGINT
        ("x * x", -(2**31), 2**62),
        ("-x", -(2**31), 2**31),
        ("x - 1", -(2**31), -(2**31) - 1),
    ],
)
def test_ints_do_not_overflow(expression: str, x: int, expected: int) -> None:
    assert value(expression, x=("INT", x)) == expected


@pytest.mark.parametrize(
    ("expression", "sql_type", "x"),
    [
        ("x + 1", "BIGINT", 2**63 - 1),
        ("x - 1", "BIGINT", -(2**63)),
        ("x * 2", "BIGINT", 2**62),
        ("-x", "BIGINT", -(2**63)),
        ("x DIV -1", "BIGINT", -(2**63)),
        ("x + x", "DECIMAL(38,0)", Decimal(10) ** 38 - 10**10),
        ("x * x", "DECIMAL(38,0)", Decimal(10) ** 20),
        ("x DIV 0.1", "DECIMAL(38,0)", Decimal(10) ** 37 * 9),
    ],
)
def test_overflow_is_an_error(expression: str, sql_type: str, x: Any) -> None:
    with pytest.raises(ps.RunError):
        value(expression, x=(sql_type, x))


def test_doubles_overflow_to_infinity() -> None:
    assert value("x * x", x=("DOUBLE", 1e200)) == float("inf")


@pytest.mark.parametrize(
    ("expression", "sql_type", "x", "expected"),
    [
        ("x + 0", "DECIMAL(38,0)", BIG, BIG),
        ("x - 0", "DECIMAL(38,0)", MINUS_BIG, MINUS_BIG),
        ("x % 10", "DECIMAL(38,0)", BIG, Decimal(8)),
        ("x DIV 10", "DECIMAL(38,0)", BIG, Decimal("1234567890123456789012345678901234567")),
        ("x * 3", "DECIMAL(18,9)", Decimal("0.333333333"), Decimal("0.999999999")),
        ("x = x + 0.001", "DECIMAL(18,3)", Decimal(10) ** 14, False),
        ("-x", "DECIMAL(38,0)", BIG, MINUS_BIG),
        ("x + 0", "DECIMAL(38,0)", Decimal("9" * 38), Decimal("9" * 38)),
        ("-12345678901234567890123456789012345678", "INT", 1, MINUS_BIG),
    ],
)
def test_decimals_are_exact(expression: str, sql_type: str, x: Any, expected: Any) -> None:
    found = value(expression, x=(sql_type, x))
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    "expression",
    [
        "1 + 'a'",
        "'a' + 'b'",
        "1 < 'a'",
        "NOT 1",
        "1 AND TRUE",
        "1.5e0 DIV 2",
        "TRUE + 1",
        "'a' LIKE 1",
        "CASE WHEN 1 THEN 2 END",
        "CASE WHEN TRUE THEN 1 ELSE 'a' END",
        "1 IN ('a')",
        "-'a'",
    ],
)
def test_types_that_do_not_fit_are_refused(expression: str) -> None:
    with pytest.raises(ps.BindError):
        value(expression)
