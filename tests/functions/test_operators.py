"""Arithmetic: which types combine, and that the result's type has room for the result."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BindError
from penstock.functions.signatures import SYMBOLS, Arithmetic, arithmetic
from penstock.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    EXACT,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal_type,
)
from tests.model.strategies import all_types, decimal_types, values


def outcome(operator: str, left: Type, right: Type) -> Arithmetic | str:
    """How the operator applies, or the message that it does not."""
    try:
        return arithmetic(operator, left, right)
    except BindError as error:
        return error.message


typed_values = decimal_types.flatmap(lambda each: st.tuples(st.just(each), values(each)))


@given(st.sampled_from(["add", "subtract", "multiply"]), typed_values, typed_values)
def test_decimals_have_room_for_the_exact_result(
    operator: str, left: tuple[Type, Decimal], right: tuple[Type, Decimal]
) -> None:
    found = outcome(operator, left[0], right[0])
    if isinstance(found, str):
        assert "decimal places" in found
        return
    result = found.result
    exact = getattr(EXACT, operator)(left[1], right[1])
    scaled = EXACT.scaleb(exact, result.scale)
    assert scaled == scaled.to_integral_value()
    assert abs(scaled) < 10**result.precision or result.precision == 38


@given(st.sampled_from(sorted(SYMBOLS)), all_types, all_types)
def test_every_combination_has_a_meaning_or_a_message(
    operator: str, left: Type, right: Type
) -> None:
    found = outcome(operator, left, right)
    if isinstance(found, str):
        assert "has no meaning" in found or "decimal places" in found
    else:
        assert all(each.kind is not Kind.NULL for each in found)


@pytest.mark.parametrize(
    ("left", "operator", "right", "result"),
    [
        (INT, "add", INT, BIGINT),
        (INT, "divide", BIGINT, DOUBLE),
        (INT, "div", BIGINT, BIGINT),
        (INT, "multiply", DOUBLE, DOUBLE),
        (decimal_type(5, 2), "add", INT, decimal_type(13, 2)),
        (decimal_type(5, 2), "multiply", decimal_type(4, 1), decimal_type(10, 3)),
        (TIMESTAMP, "subtract", TIMESTAMP, INTERVAL),
        (TIMESTAMP, "add", INTERVAL, TIMESTAMP),
        (INTERVAL, "add", TIMESTAMP, TIMESTAMP),
        (DATE, "add", INT, DATE),
        (DATE, "subtract", DATE, BIGINT),
        (DATE, "add", INTERVAL, TIMESTAMP),
        (INTERVAL, "multiply", INT, INTERVAL),
        (INT, "multiply", INTERVAL, INTERVAL),
        (NULL, "add", INT, BIGINT),
        (NULL, "multiply", NULL, BIGINT),
        (TIMESTAMP, "subtract", NULL, TIMESTAMP),
    ],
    ids=str,
)
def test_results(left: Type, operator: str, right: Type, result: Type) -> None:
    assert arithmetic(operator, left, right).result == result


@pytest.mark.parametrize(
    ("left", "operator", "right", "message"),
    [
        (STRING, "add", INT, "STRING + INT has no meaning"),
        (BOOLEAN, "multiply", BOOLEAN, "BOOLEAN * BOOLEAN has no meaning"),
        (TIMESTAMP, "add", TIMESTAMP, "TIMESTAMP + TIMESTAMP has no meaning"),
        (TIMESTAMP, "add", INT, "TIMESTAMP + INT has no meaning"),
        (INTERVAL, "subtract", TIMESTAMP, "INTERVAL - TIMESTAMP has no meaning"),
        (INTERVAL, "multiply", DOUBLE, "INTERVAL * DOUBLE has no meaning"),
        (DOUBLE, "div", INT, "DOUBLE DIV INT has no meaning"),
    ],
    ids=str,
)
def test_no_meaning(left: Type, operator: str, right: Type, message: str) -> None:
    with pytest.raises(BindError) as caught:
        arithmetic(operator, left, right)
    assert caught.value.message == message


def test_too_many_decimal_places() -> None:
    with pytest.raises(BindError, match="needs 60 decimal places"):
        arithmetic("multiply", decimal_type(38, 30), decimal_type(38, 30))
