"""Slide-by-tuple windows against the reference engine."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.clock import ManualClock
from penstock.operators.folding import key_expiry
from penstock.operators.windows.counted import stretches
from penstock.operators.windows.counted.slide_by_tuple import SlideByTupleOperator
from penstock.plan.aggregates import WindowAggregate
from penstock.plan.node import Node
from tests.operators.driving import (
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

OPERATORS = {WindowAggregate: SlideByTupleOperator}
WAYS: dict[str, list[tuple[ModuleType, str, int]]] = {
    "rows": [],
    "blocks": [(stretches, "_BLOCK", 2), (stretches, "_LONG", 2)],
    "few rows at once": [(stretches, "_AT_ONCE", 5)],
    "keys forgotten": [(key_expiry, "MANY", 1)],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@examples
@given(
    rows=ROWS,
    promise=PROMISE,
    window=st.sampled_from(
        [
            "RANGE 6, RATTR t, SLIDE 1 ROW, SATTR row-num",
            "RANGE 6, RATTR t, SLIDE 3 ROWS, SATTR row-num",
            "RANGE 15, RATTR t, SLIDE 2 ROWS, SATTR row-num, PA k",
            "RANGE 1, RATTR t, SLIDE 1 ROW, SATTR rank(t)",
            "RANGE 9, RATTR t, SLIDE 3 ROWS, SATTR rank(t)",
            "RANGE 9, RATTR t, SLIDE 2 ROWS, SATTR rank(t), PA k",
        ]
    ),
    keys=st.sampled_from(["", "GROUP BY k", "GROUP BY k, i"]),
    aggregates=st.sampled_from([DIFFERENTIAL, ALL]),
)
def test_against_the_reference(
    way: list[tuple[ModuleType, str, int]],
    rows: list[Row],
    promise: dict[str, Any],
    window: str,
    keys: str,
    aggregates: str,
) -> None:
    sql = f"SELECT window_id, window_start, {aggregates} [{window}] FROM s {keys}"
    with pytest.MonkeyPatch.context() as patch:
        for change in way:
            patch.setattr(*change)
        check(sql, Stream(rows, promise), OPERATORS)


@examples
@given(rows=ROWS, promise=PROMISE, order=st.sampled_from(["row-num", "rank(u)"]))
def test_decimals_and_several_inputs(rows: list[Row], promise: dict[str, Any], order: str) -> None:
    """Ids are values of the attribute; the slower input holds windows back."""
    sql = (
        f"SELECT window_id, {ALL} [RANGE 5.25, RATTR u, SLIDE 2 ROWS, SATTR {order}, PA k] FROM ("
        "SELECT k, i, x, CAST(t AS DECIMAL(9,2)) AS u FROM s UNION ALL "
        "SELECT k, i, x, CAST(t + 3 AS DECIMAL(9,2)) AS u FROM s)"
    )
    check(sql, Stream(rows, promise), OPERATORS)


@pytest.mark.parametrize("aggregate", ["sum(i)", "max(i)"])
def test_long_windows_share_blocks(aggregate: str) -> None:
    """Windows of some hundred rows, put together from blocks of 16."""
    random = np.random.default_rng(1)
    times = np.arange(700) + random.integers(0, 20, 700)
    rows = [("d", "ab"[n % 2], int(n % 97), 1.0, int(t)) for n, t in enumerate(times)]
    sql = (
        f"SELECT window_id, {aggregate} AS a [RANGE 400, RATTR t, SLIDE 9 ROWS, SATTR row-num]"
        " FROM s GROUP BY k"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "_BLOCK", 16)
        patch.setattr(stretches, "_LONG", 100)
        check(sql, Stream(rows, {"delay": 20}), OPERATORS)


def test_state_is_forgotten() -> None:
    made: list[SlideByTupleOperator] = []

    def operator(node: Any) -> SlideByTupleOperator:
        made.append(SlideByTupleOperator(node))
        return made[-1]

    rows: list[Row] = [("d", "a", 1, 1.0, t) for t in range(100)]
    sql = "SELECT count(*) AS c [RANGE 10, RATTR t, SLIDE 1 ROW, SATTR row-num] FROM s"
    plan: Node = planned(sql, Stream(rows, {"delay": 5}), cut=7)
    most = 0
    for _ in items(plan.inputs[0], {WindowAggregate: operator}, ManualClock()):
        most = max([most, *(len(state.ticks) for state in made[0].states.values())])
    assert 0 < most <= 10 + 7
    assert made[0].states == {}
