"""Ticks: exact integers for every type that can progress."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.model.durations import DAY
from penstock.model.ticks import Domain
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Type,
    decimal_type,
)
from tests.model.strategies import decimal_types, values

PROGRESSING = st.sampled_from([TIMESTAMP, DATE, INT, BIGINT]) | decimal_types
CENTS = decimal_type(9, 2)


@given(PROGRESSING.flatmap(lambda each: st.tuples(st.just(each), values(each), values(each))))
def test_ticks_are_values_in_the_same_order(typed: tuple[Type, Any, Any]) -> None:
    sql_type, one, other = typed
    domain = Domain(sql_type)
    assert domain.value(domain.tick(one)) == one
    assert (domain.tick(one) < domain.tick(other)) == (one < other)


@pytest.mark.parametrize(
    ("sql_type", "value", "tick"),
    [
        (TIMESTAMP, 1_500_000, 1_500_000),
        (DATE, 20_000, 20_000),
        (INT, -7, -7),
        (CENTS, Decimal("1.5"), 150),
        (CENTS, Decimal("-0.01"), -1),
        (decimal_type(38, 0), Decimal(10**38 - 1), 10**38 - 1),
        (decimal_type(38, 38), Decimal("0." + "9" * 38), 10**38 - 1),
    ],
    ids=str,
)
def test_tick(sql_type: Type, value: Any, tick: int) -> None:
    found = Domain(sql_type).tick(value)
    assert found == tick
    assert type(found) is int


@pytest.mark.parametrize("sql_type", [NULL, BOOLEAN, DOUBLE, STRING, BINARY, INTERVAL], ids=str)
def test_types_that_cannot_progress(sql_type: Type) -> None:
    with pytest.raises(PenstockError, match=f"{sql_type.a} column cannot progress") as caught:
        Domain(sql_type)
    assert (caught.value.hint is not None) == (sql_type == DOUBLE)


def test_lengths_of_time() -> None:
    assert Domain(TIMESTAMP).length_of_time(5) == 5
    assert Domain(DATE).length_of_time(3 * DAY) == 3
    with pytest.raises(PenstockError, match="36 HOURS is not a whole number of days"):
        Domain(DATE).length_of_time(DAY * 3 // 2)
    for sql_type in (INT, BIGINT, CENTS):
        with pytest.raises(PenstockError, match="1 DAY is a length of time") as caught:
            Domain(sql_type).length_of_time(DAY)
        assert caught.value.expected == "a plain number"


def test_lengths_of_numbers() -> None:
    assert Domain(INT).length_of_number(Decimal(5)) == 5
    assert Domain(BIGINT).length_of_number(Decimal("5.00")) == 5
    assert Domain(CENTS).length_of_number(Decimal("0.25")) == 25
    with pytest.raises(PenstockError, match=r"2\.5 is finer than the column's type INT"):
        Domain(INT).length_of_number(Decimal("2.5"))
    with pytest.raises(PenstockError, match=r"0\.001 is finer than the column's type DECIMAL"):
        Domain(CENTS).length_of_number(Decimal("0.001"))


@pytest.mark.parametrize(("sql_type", "hint"), [(TIMESTAMP, "5 SECONDS"), (DATE, "5 DAYS")])
def test_a_number_without_a_unit_on_a_time(sql_type: Type, hint: str) -> None:
    with pytest.raises(PenstockError, match="5 has no unit") as caught:
        Domain(sql_type).length_of_number(Decimal(5))
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("sql_type", "ticks", "length", "value"),
    [
        (TIMESTAMP, DAY, "1 DAY", "1970-01-02T00:00:00.000000Z"),
        (DATE, 7, "1 WEEK", "1970-01-08"),
        (DATE, -1, "-1 DAYS", "1969-12-31"),
        (INT, 12, "12", "12"),
        (CENTS, 150, "1.50", "1.50"),
    ],
    ids=str,
)
def test_as_text(sql_type: Type, ticks: int, length: str, value: str) -> None:
    assert Domain(sql_type).format_length(ticks) == length
    assert Domain(sql_type).format(ticks) == value


def test_what_is_a_time() -> None:
    assert [Domain(each).is_time for each in (TIMESTAMP, DATE, INT, CENTS)] == [
        True,
        True,
        False,
        False,
    ]
