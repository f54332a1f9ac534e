"""Scalar functions at the edges: halves, NaN, the ends of the ranges, and the calendar."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.expressions.evaluation import evaluator
from penstock.model.types import BIGINT, DATE, TIMESTAMP, Field, Schema, Type
from penstock.plan.expressions import Call, Column
from tests.functions.helpers import answer

# What has no value of its type.
TOO_LARGE = [
    "9223372036854775807 + x",
    "t + INTERVAL 20000000 WEEKS",
    "timestamp_seconds(9223372036854775807)",
    "round(9223372036854775807, -1)",
    "d + 3000000000",
    "date_trunc('week', timestamp_micros(-9223372036854775807 - 1))",
]


@pytest.mark.parametrize(
    ("number", "expected"), [("1.5", 2.0), ("2.5", 3.0), ("-0.5", -1.0), ("-2.4", -2.0)]
)
def test_halves_are_rounded_away_from_zero(number: str, expected: float) -> None:
    assert answer(f"round(CAST('{number}' AS DOUBLE))") == expected
    assert answer(f"round({number})") == expected


@pytest.mark.parametrize("number", ["0.49999999999999994", "4503599627370497"])
def test_what_is_below_a_half_or_whole_is_not_rounded_up(number: str) -> None:
    assert answer(f"round(CAST('{number}' AS DOUBLE))") == float(int(float(number)))


def test_more_places_than_there_are_change_nothing() -> None:
    assert answer("round(1.5, 200)") == Decimal("1.5")


@pytest.mark.parametrize("name", ["greatest", "least"])
def test_the_order_of_arguments_does_not_matter_to_nan(name: str) -> None:
    nan = "CAST('nan' AS DOUBLE)"
    assert str(answer(f"{name}({nan}, f)")) == str(answer(f"{name}(f, {nan})"))


@pytest.mark.parametrize("call", ["ceil({})", "abs({})", "{} * 1", "round({})"])
def test_the_largest_decimals(call: str) -> None:
    largest = "9" * 38
    assert answer(call.format(largest)) == Decimal(largest)


@pytest.mark.parametrize("expression", TOO_LARGE)
def test_what_does_not_fit_its_type_is_a_run_error(expression: str) -> None:
    with pytest.raises(ps.RunError):
        answer(expression)


PARTS: dict[str, Callable[[datetime.datetime], int]] = {
    "year": lambda moment: moment.year,
    "quarter": lambda moment: (moment.month + 2) // 3,
    "month": lambda moment: moment.month,
    "week": lambda moment: moment.isocalendar().week,
    "day": lambda moment: moment.day,
    "isodow": lambda moment: moment.isoweekday(),
    "dayofyear": lambda moment: moment.timetuple().tm_yday,
    "hour": lambda moment: moment.hour,
    "minute": lambda moment: moment.minute,
    "second": lambda moment: moment.second,
}
EPOCH = datetime.datetime(1970, 1, 1)


def compute(name: str, sql_type: Type, value: int) -> Any:
    call = Call(name, (Column("x", sql_type),), BIGINT)
    return evaluator(call, Schema((Field("x", sql_type),)))((value,))


@given(st.datetimes())
@settings(deadline=None)
def test_the_calendar_is_pythons(moment: datetime.datetime) -> None:
    since = (moment - EPOCH) // datetime.timedelta(microseconds=1)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    for name, expected in PARTS.items():
        assert compute(name, TIMESTAMP, since) == expected(moment)
        assert compute(name, DATE, (midnight - EPOCH).days) == expected(midnight)
