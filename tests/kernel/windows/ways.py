"""Operators of windows held to the reference engine, in every way in which they may do their work:
the limits that they choose by are set so low that a few rows reach them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.operator import Operator
from penstock.model.clock import ManualClock
from penstock.plan.nodes.aggregation import WindowAggregate
from tests.kernel.driving import (
    ALL,
    DIFFERENTIAL,
    PROMISE,
    ROWS,
    Row,
    Stream,
    check,
    examples,
    items,
    planned,
)

Way = list[tuple[ModuleType, str, int]]  # modules, the names of limits in them, and their values
Making = Callable[[Any], Operator]


def against_the_reference(
    make: Making, ways: Mapping[str, Way], windows: list[str], ids: str
) -> Callable[..., None]:
    """A test of an operator over any rows, windows, groups and aggregates."""

    @pytest.mark.parametrize("way", ways.values(), ids=ways.keys())
    @examples
    @given(
        rows=ROWS,
        promise=PROMISE,
        window=st.sampled_from(windows),
        keys=st.sampled_from(["", "GROUP BY k", "GROUP BY k, i"]),
        aggregates=st.sampled_from([DIFFERENTIAL, ALL]),
    )
    def test(
        way: Way,
        rows: list[Row],
        promise: dict[str, Any],
        window: str,
        keys: str,
        aggregates: str,
    ) -> None:
        sql = f"SELECT {ids}, {aggregates} [{window}] FROM s {keys}"
        with pytest.MonkeyPatch.context() as patch:
            for change in way:
                patch.setattr(*change)
            check(sql, Stream(rows, promise), {WindowAggregate: make})

    return test


def most_held(
    make: type[Any], sql: str, stream: Stream, cut: int, held: Callable[[Any], int]
) -> tuple[int, Any]:
    """How much an operator held at most while a stream went through it, and the operator."""
    made: list[Any] = []

    def noted(node: Any) -> Operator:
        made.append(make(node))
        operator: Operator = made[0]
        return operator

    most = 0
    for _ in items(planned(sql, stream, cut).input, {WindowAggregate: noted}, ManualClock()):
        most = max(most, held(made[0]))
    return most, made[0]
