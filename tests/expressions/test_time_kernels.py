"""The tables against the calendar in integers, over all days that a DATE can hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expressions.time_kernels import OF_DAYS
from penstock.model.durations import DAY
from penstock.model.types import BIGINT, DATE, STRING, TIMESTAMP, Schema
from penstock.plan.expressions import Call, Cast, Column, Literal

UNITS = ["week", "month", "quarter", "year"]
DAYS = st.integers(-(2**31) + 366, 2**31 - 1) | st.integers(-800_000, 3_000_000)


@settings(max_examples=40, deadline=None)
@given(days=st.lists(DAYS, min_size=1, max_size=50))
def test_days(
    agree: Callable[..., None], schema_of: Callable[..., Schema], days: list[int]
) -> None:
    day = Column("c0", DATE)
    rows = [(each,) for each in days]
    for field in OF_DAYS:
        agree(Call(field, (day,), BIGINT), schema_of(DATE), rows)
    for unit in UNITS:
        agree(Call("date_trunc", (Literal(unit, STRING), day), DATE), schema_of(DATE), rows)
    agree(Cast(day, STRING), schema_of(DATE), rows)


@pytest.mark.parametrize("year", [-1, 0, 1, 1582, 1900, 1970, 2000, 2024, 2100, 9999, 10_000])
def test_the_days_around_new_year(
    agree: Callable[..., None], schema_of: Callable[..., Schema], year: int
) -> None:
    first = round((year - 1970) * 365.2425) * DAY
    rows = [(first + days * DAY + part,) for days in range(-9, 70) for part in (-1, 0, 1)]
    moment = Column("c0", TIMESTAMP)
    for field in (*OF_DAYS, "hour", "minute", "second"):
        agree(Call(field, (moment,), BIGINT), schema_of(TIMESTAMP), rows)
    for unit in UNITS:
        trunc = Call("date_trunc", (Literal(unit, STRING), moment), TIMESTAMP)
        agree(trunc, schema_of(TIMESTAMP), rows)
    agree(Cast(moment, STRING), schema_of(TIMESTAMP), rows)
