"""Floats next to a half, where the product with a power of ten is on the wrong side."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.types import BIGINT, DOUBLE, Schema
from penstock.plan.expressions import Call, Column, Literal

X = Column("c0", DOUBLE)


@pytest.mark.parametrize("places", [0, 1, 2, 3, 7, 15, 22, -1, -3, -15])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_near_a_half(
    agree: Callable[..., None], schema_of: Callable[..., Schema], places: int, data: st.DataObject
) -> None:
    end = 2**53 // 10**places if places < 0 else 2**54
    whole = data.draw(st.lists(st.integers(0, end), min_size=1, max_size=20))
    rows = []
    for number in whole:
        half = (number + 0.5) / 10.0**places
        for value in (math.nextafter(half, 0), half, math.nextafter(half, math.inf)):
            rows += [(value,), (-value,)]
    expression = Call("round", (X, Literal(places, BIGINT)), DOUBLE)
    agree(expression, schema_of(DOUBLE), rows)
    agree(Call("round", (X,), DOUBLE), schema_of(DOUBLE), rows)
