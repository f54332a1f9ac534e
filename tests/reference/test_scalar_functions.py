"""Scalar functions by example.  Times are in `test_times.py`, operators in `test_operators.py`."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

import penstock as ps
from penstock.functions.scalar_functions import ALIASES, SCALARS
from tests.reference.helpers import value

NAN, INF = float("nan"), float("inf")

TEXTS = [
    ("upper('aß é')", "ASS É"),
    ("lower('AÉ')", "aé"),
    ("length('aü€')", 3),
    ("length('')", 0),
    ("trim('  a b ')", "a b"),
    ("ltrim('  a ')", "a "),
    ("rtrim('  a ')", "  a"),
    ("substr('abcde', 2)", "bcde"),
    ("substr('abcde', 2, 3)", "bcd"),
    ("substr('abcde', -2)", "de"),
    ("substr('abcde', -2, 1)", "d"),
    ("substr('abcde', 4, 9)", "de"),
    ("substr('abcde', 9)", ""),
    ("substr('abcde', 2, 0)", ""),
    ("substr('abcde', 2, -1)", ""),
    ("substring('abcde' FROM 2 FOR 2)", "bc"),
    ("left('abc', 2)", "ab"),
    ("left('abc', 9)", "abc"),
    ("left('abc', -1)", ""),
    ("right('abc', 2)", "bc"),
    ("right('abc', 0)", ""),
    ("right('abc', 9)", "abc"),
    ("replace('banana', 'an', 'o')", "booa"),
    ("replace('abc', '', 'x')", "abc"),
    ("concat('a', 'b', 'c')", "abc"),
    ("concat('a')", "a"),
    ("reverse('abc')", "cba"),
    ("starts_with('abc', 'ab')", True),
    ("starts_with('abc', 'b')", False),
    ("ends_with('abc', 'bc')", True),
    ("ends_with('abc', 'b')", False),
    ("contains('abc', 'b')", True),
    ("contains('a%c', '_')", False),
    ("strpos('abcb', 'b')", 2),
    ("strpos('abc', 'x')", 0),
    ("position('c' IN 'abc')", 3),
    ("split_part('a,b,c', ',', 2)", "b"),
    ("split_part('a,b,c', ',', 4)", ""),
    ("split_part('a,b,c', ',', 0)", ""),
    ("split_part('abc', ',', 1)", "abc"),
]
NUMBERS = [
    ("abs(-3)", 3),
    ("abs(-3.50)", Decimal("3.50")),
    ("abs(-3e0)", 3.0),
    ("sign(-0.5)", -1),
    ("sign(0)", 0),
    ("sign(7e0)", 1),
    ("round(2.5)", Decimal(3)),
    ("round(-2.5)", Decimal(-3)),
    ("round(2.4e0)", 2.0),
    ("round(2.5e0)", 3.0),
    ("round(-2.5e0)", -3.0),
    ("round(7)", 7),
    ("round(1.2345, 2)", Decimal("1.2300")),
    ("round(1.235, 2)", Decimal("1.240")),
    ("round(1250e0, -2)", 1300.0),
    ("round(1250, -2)", 1300),
    ("round(-1250, -2)", -1300),
    ("round(1249, -2)", 1200),
    ("floor(2.7)", Decimal(2)),
    ("floor(-2.1)", Decimal(-3)),
    ("floor(-2.1e0)", -3.0),
    ("floor(7)", 7),
    ("ceil(2.1)", Decimal(3)),
    ("ceil(-2.7)", Decimal(-2)),
    ("ceil(2.1e0)", 3.0),
    ("sqrt(9)", 3.0),
    ("sqrt(-1)", NAN),
    ("exp(0)", 1.0),
    ("exp(1000)", INF),
    ("ln(1)", 0.0),
    ("ln(0)", -INF),
    ("ln(-1)", NAN),
    ("log10(1000)", 3.0),
    ("log2(8)", 3.0),
    ("power(2, 10)", 1024.0),
    ("power(-8, 0.5)", NAN),
    ("power(0, -1)", INF),
    ("power(-10, 309)", -INF),
    ("power(10, 309)", INF),
    ("greatest(1, 3, 2)", 3),
    ("greatest(1, NULL, 2.5)", Decimal("2.5")),
    ("greatest('a', 'b')", "b"),
    ("least(3, 1, NULL)", 1),
    ("least(1.5, 2e0)", 1.5),
]
CHOICES = [
    ("coalesce(NULL, 2, 3)", 2),
    ("coalesce(NULL, NULL, 'a')", "a"),
    ("coalesce(1, 2.5)", Decimal("1.0")),
    ("nullif(1, 1)", None),
    ("nullif(1, 2)", 1),
    ("nullif('a', 'b')", "a"),
    ("if(1 < 2, 'yes', 'no')", "yes"),
    ("if(1 > 2, 'yes', 'no')", "no"),
    ("if(NULL, 'yes', 'no')", "no"),
    ("if(1 < 2, 1, 2.5)", Decimal("1.0")),
]
EXAMPLES = [*TEXTS, *NUMBERS, *CHOICES]


@pytest.mark.parametrize(("expression", "expected"), EXAMPLES, ids=[e for e, _ in EXAMPLES])
def test_examples(expression: str, expected: Any) -> None:
    found = value(expression)
    if isinstance(expected, float) and math.isnan(expected):
        assert math.isnan(found)
    else:
        assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize("name", [*SCALARS, *ALIASES])
def test_null_in_null_out(name: str) -> None:
    """All functions but those that choose; every function is called here, by every name."""
    function = SCALARS[ALIASES.get(name, name)]
    arguments = ["CAST(NULL AS BOOLEAN)" if name in ("if", "iff") else "NULL"]
    arguments += ["NULL"] * (len(function.signature.families) - 1 - function.signature.optional)
    if function.name in ("date_trunc", "date_part"):
        arguments[0] = "'day'"
    if function.name == "time_bucket":
        arguments[0] = "INTERVAL 1 DAY"
    if name == "extract":
        call = "extract(day FROM CAST(NULL AS TIMESTAMP))"
    elif name == "position":
        call = "position(NULL IN CAST(NULL AS STRING))"
    else:
        call = f"{name}({', '.join(arguments)})"
    assert value(call) is None


@pytest.mark.parametrize(
    "call",
    [
        "concat('a', NULL, 'b')",
        "substr('abc', NULL)",
        "substr('abc', 1, NULL)",
        "replace('abc', 'a', NULL)",
        "round(1.5, NULL)",
        "power(NULL, 2)",
        "starts_with('abc', NULL)",
        "split_part('a', NULL, 1)",
        "greatest(NULL, CAST(NULL AS INT))",
        "coalesce(NULL, CAST(NULL AS INT))",
        "nullif(CAST(NULL AS INT), 1)",
    ],
)
def test_one_null_is_enough(call: str) -> None:
    assert value(call) is None


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("ucase('a')", "A"),
        ("lcase('A')", "a"),
        ("len('ab')", 2),
        ("char_length('ab')", 2),
        ("character_length('ab')", 2),
        ("substring('abc', 2)", "bc"),
        ("ceiling(1.5e0)", 2.0),
        ("pow(2, 3)", 8.0),
        ("log(1)", 0.0),
        ("ifnull(NULL, 1)", 1),
        ("nvl(NULL, 1)", 1),
        ("iff(1 = 1, 2, 3)", 2),
        ("startswith('ab', 'a')", True),
        ("endswith('ab', 'b')", True),
    ],
)
def test_aliases(alias: str, expected: Any) -> None:
    assert value(alias) == expected


BIG = Decimal("12345678901234567890123456789012345678")  # 38 digits
MINUS_BIG = Decimal("-12345678901234567890123456789012345678")  # unary minus would round it
CEILING = Decimal("1234567890123456789012345678901234568")


@pytest.mark.parametrize(
    ("expression", "sql_type", "given", "expected"),
    [
        ("floor(x)", "DECIMAL(38,0)", BIG, BIG),
        ("ceil(x)", "DECIMAL(38,1)", Decimal("1234567890123456789012345678901234567.1"), CEILING),
        ("sign(x)", "DECIMAL(38,0)", MINUS_BIG, -1),
        ("round(x)", "DOUBLE", 1e300, 1e300),
        ("round(x, 400)", "DOUBLE", 1.5, 1.5),
        ("round(x)", "DOUBLE", INF, INF),
        ("abs(x)", "DECIMAL(38,0)", MINUS_BIG, BIG),
        ("round(x)", "DOUBLE", 0.49999999999999994, 0.0),  # and 0.5 would be 1.0
        ("round(x)", "DOUBLE", 4503599627370497.0, 4503599627370497.0),
        ("round(x, -301)", "DOUBLE", 1.5, 0.0),
    ],
)
def test_extremes(expression: str, sql_type: str, given: Any, expected: Any) -> None:
    assert value(expression, x=(sql_type, given)) == expected


@pytest.mark.parametrize(
    ("expression", "sql_type", "given"),
    [
        ("abs(x)", "INT", -(2**31)),
        ("abs(x)", "BIGINT", -(2**63)),
        ("timestamp_seconds(x)", "BIGINT", 2**62),
        ("timestamp_millis(x)", "BIGINT", -(2**62)),
        ("round(x, -1)", "INT", 2**31 - 1),
        ("round(x, -1)", "BIGINT", 2**63 - 1),
        ("round(x, 0)", "DECIMAL(4,1)", Decimal("999.9")),
    ],
)
def test_what_does_not_fit_is_an_error(expression: str, sql_type: str, given: Any) -> None:
    with pytest.raises(ps.RunError):
        value(expression, x=(sql_type, given))


def test_rounding_a_decimal_to_many_places_keeps_it() -> None:
    assert value("round(x, 200)", x=("DECIMAL(10,2)", Decimal("1.50"))) == Decimal("1.50")


@pytest.mark.parametrize("name", ["greatest", "least"])
def test_nan_among_the_arguments(name: str) -> None:
    """Whatever NaN is, the order of the arguments does not matter."""
    one = value(f"{name}(x, 1e0)", x=("DOUBLE", NAN))
    other = value(f"{name}(1e0, x)", x=("DOUBLE", NAN))
    assert repr(one) == repr(other)


@pytest.mark.parametrize(
    "expression",
    [
        "upper(1)",
        "length(x)",
        "sqrt('a')",
        "greatest(1, 'a')",
        "nullif(1)",
        "if(1, 2, 3)",
        "no_such_function(1)",
        "now()",
        "random()",
        "date_trunc('fortnight', CAST(NULL AS TIMESTAMP))",
        "date_trunc('epoch', CAST(NULL AS TIMESTAMP))",
    ],
)
def test_refused(expression: str) -> None:
    with pytest.raises(ps.BindError):
        value(expression, x=("INT", 1))
