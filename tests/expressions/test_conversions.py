"""Numbers as texts: the shortest digits, laid out as Python lays them out."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.types import DOUBLE, STRING, Schema, decimal_type
from penstock.plan.expressions import Cast, Column

NUMBER = st.one_of(
    st.floats(),
    st.integers(-(10**17), 10**17).map(float),
    st.integers(-(10**9), 10**9).map(lambda cents: cents / 100),
    st.floats(1e-6, 1e-3),
)


@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.none() | NUMBER, max_size=50), before=st.integers(0, 9))
def test_doubles(
    agree: Callable[..., None],
    schema_of: Callable[..., Schema],
    numbers: list[float | None],
    before: int,
) -> None:
    rows = [(number,) for number in numbers]
    column = Column("c0", DOUBLE)
    agree(Cast(column, STRING), schema_of(DOUBLE), rows, before)
    for precision, scale in ((9, 2), (38, 9), (38, 38)):
        agree(Cast(column, decimal_type(precision, scale), True), schema_of(DOUBLE), rows, before)
