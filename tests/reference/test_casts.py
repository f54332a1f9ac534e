"""CAST and TRY_CAST: every pair of types, what is rounded, and what fails."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

import penstock as ps
from tests.reference.helpers import value

DAY = 86_400_000_000
NINES = Decimal("9" * 30)
NAN, INF = float("nan"), float("inf")

GOOD = [
    ("BOOLEAN", True, "INT", 1),
    ("BOOLEAN", False, "BIGINT", 0),
    ("BOOLEAN", True, "DOUBLE", 1.0),
    ("BOOLEAN", True, "DECIMAL(3,1)", Decimal("1.0")),
    ("BOOLEAN", False, "STRING", "false"),
    ("INT", 0, "BOOLEAN", False),
    ("INT", -3, "BOOLEAN", True),
    ("INT", 7, "BIGINT", 7),
    ("INT", 7, "DOUBLE", 7.0),
    ("INT", 7, "DECIMAL(4,2)", Decimal("7.00")),
    ("INT", -7, "STRING", "-7"),
    ("BIGINT", 2**31 - 1, "INT", 2**31 - 1),
    ("BIGINT", 2**53 + 1, "DOUBLE", 2.0**53),
    ("DOUBLE", 1.9, "INT", 1),
    ("DOUBLE", -1.9, "BIGINT", -1),
    ("DOUBLE", 0.5, "BOOLEAN", True),
    ("DOUBLE", 2.675, "DECIMAL(5,2)", Decimal("2.68")),  # from what is shown, not from the bits
    ("DOUBLE", -0.125, "DECIMAL(5,2)", Decimal("-0.13")),
    ("DOUBLE", 1e16, "STRING", "1e+16"),
    ("DOUBLE", 0.1, "STRING", "0.1"),
    ("DOUBLE", INF, "STRING", "inf"),
    ("DECIMAL(5,2)", Decimal("-1.99"), "INT", -1),
    ("DECIMAL(5,2)", Decimal("1.25"), "DOUBLE", 1.25),
    ("DECIMAL(5,2)", Decimal("1.25"), "DECIMAL(4,1)", Decimal("1.3")),
    ("DECIMAL(5,2)", Decimal("-1.25"), "DECIMAL(4,1)", Decimal("-1.3")),
    ("DECIMAL(5,2)", Decimal("1.20"), "STRING", "1.20"),
    ("DECIMAL(38,10)", Decimal("1E-10"), "STRING", "0.0000000001"),
    ("STRING", " 12 ", "INT", 12),
    ("STRING", "+12", "BIGINT", 12),
    ("STRING", "1.5", "DOUBLE", 1.5),
    ("STRING", "-inf", "DOUBLE", -INF),
    ("STRING", "1.50", "DECIMAL(4,1)", Decimal("1.5")),
    ("STRING", "Yes", "BOOLEAN", True),
    ("STRING", "f", "BOOLEAN", False),
    ("STRING", "2020-02-29", "DATE", 18_321),
    ("STRING", "1969-12-31 23:59:59.5", "TIMESTAMP", -500_000),
    ("STRING", "1970-01-01T01:00:00+01:00", "TIMESTAMP", 0),
    ("STRING", "1970-01-02", "TIMESTAMP", DAY),
    ("STRING", "00ff", "BINARY", b"\x00\xff"),
    ("BINARY", "é".encode(), "STRING", "é"),
    ("DATE", -1, "TIMESTAMP", -DAY),
    ("DATE", -1, "STRING", "1969-12-31"),
    ("DATE", 3_000_000, "STRING", "10183-09-21"),
    ("TIMESTAMP", -1, "DATE", -1),
    ("TIMESTAMP", DAY - 1, "DATE", 0),
    ("TIMESTAMP", -1, "STRING", "1969-12-31T23:59:59.999999Z"),
    ("TIMESTAMP", 300_000_000_000_000_000, "STRING", "11476-08-15T05:20:00.000000Z"),
    ("INT", 5, "INT", 5),
    ("DECIMAL(38,0)", NINES, "DECIMAL(30,0)", NINES),
]
BAD = [
    ("STRING", "abc", "INT"),
    ("STRING", "", "INT"),
    ("STRING", "1.5", "INT"),
    ("STRING", str(2**31), "INT"),
    ("STRING", str(2**63), "BIGINT"),
    ("STRING", "abc", "DOUBLE"),
    ("STRING", "1000", "DECIMAL(4,1)"),
    ("STRING", "perhaps", "BOOLEAN"),
    ("STRING", "2021-02-29", "DATE"),
    ("STRING", "1970-01-01 24:00:00", "TIMESTAMP"),
    ("STRING", "0g", "BINARY"),
    ("BIGINT", 2**31, "INT"),
    ("BIGINT", -(2**31) - 1, "INT"),
    ("DOUBLE", 1e10, "INT"),
    ("DOUBLE", 1e19, "BIGINT"),
    ("DOUBLE", NAN, "INT"),
    ("DOUBLE", INF, "BIGINT"),
    ("DOUBLE", NAN, "DECIMAL(4,1)"),
    ("DOUBLE", 1000.0, "DECIMAL(4,1)"),
    ("DOUBLE", 1e300, "DECIMAL(4,1)"),
    ("DECIMAL(10,0)", Decimal(2) ** 32, "INT"),
    ("DECIMAL(5,2)", Decimal("999.99"), "DECIMAL(4,1)"),
    ("BINARY", b"\xff", "STRING"),
    ("DATE", 2**31 - 1, "TIMESTAMP"),
]


@pytest.mark.parametrize(("given", "x", "wanted", "expected"), GOOD)
def test_casts(given: str, x: Any, wanted: str, expected: Any) -> None:
    for call in (f"CAST(x AS {wanted})", f"TRY_CAST(x AS {wanted})", f"x::{wanted}"):
        found = value(call, x=(given, x))
        assert (type(found), found) == (type(expected), expected)


def test_nan_stays_nan() -> None:
    assert math.isnan(value("CAST(x AS DOUBLE)", x=("STRING", "nan")))
    assert value("CAST(x AS STRING)", x=("DOUBLE", NAN)) == "nan"


@pytest.mark.parametrize(("given", "x", "wanted"), BAD)
def test_failing_casts(given: str, x: Any, wanted: str) -> None:
    with pytest.raises(ps.RunError):
        value(f"CAST(x AS {wanted})", x=(given, x))
    assert value(f"TRY_CAST(x AS {wanted})", x=(given, x)) is None


@pytest.mark.parametrize(
    "wanted",
    ["BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "STRING", "BINARY", "DATE", "TIMESTAMP"],
)
def test_null_is_null_in_every_type(wanted: str) -> None:
    assert value(f"CAST(x AS {wanted})", x=("STRING", None)) is None
    assert value(f"CAST(NULL AS {wanted})") is None


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("INT", "DATE"),
        ("INT", "TIMESTAMP"),
        ("TIMESTAMP", "BIGINT"),
        ("BOOLEAN", "DATE"),
        ("INT", "BINARY"),
        ("BINARY", "INT"),
        ("DATE", "BOOLEAN"),
    ],
)
def test_casts_without_meaning_are_refused(given: str, wanted: str) -> None:
    with pytest.raises(ps.BindError):
        value(f"CAST(x AS {wanted})", x=(given, None))


def test_a_bad_literal_is_found_before_anything_runs() -> None:
    with pytest.raises(ps.BindError):
        value("CAST('abc' AS INT)")


@pytest.mark.parametrize("sql_type", ["INT", "DOUBLE", "DECIMAL(9,2)", "DATE", "TIMESTAMP"])
def test_through_text_and_back(sql_type: str) -> None:
    x: Any = {"DOUBLE": 0.1 + 0.2, "DECIMAL(9,2)": Decimal("-1.50")}.get(sql_type, -123_456)
    assert value(f"CAST(CAST(x AS STRING) AS {sql_type})", x=(sql_type, x)) == x


def test_the_lowest_timestamp_has_a_text() -> None:
    found = value("CAST(x AS STRING)", x=("TIMESTAMP", -(2**63)))
    assert found == "-290308-12-21T19:59:05.224192Z"
