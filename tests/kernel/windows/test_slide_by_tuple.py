"""Slide-by-tuple windows against the reference engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.grouping import folding as key_expiry
from penstock.kernel.windows import counted_rows
from penstock.kernel.windows.slide_by_tuple import SlideByTupleOperator
from penstock.plan.nodes.aggregation import WindowAggregate
from tests.kernel.driving import ALL, PROMISE, ROWS, Row, Stream, check, examples
from tests.kernel.windows.ways import Way, against_the_reference, most_held

OPERATORS = {WindowAggregate: SlideByTupleOperator}
WINDOWS = [
    "RANGE 6, RATTR t, SLIDE 1 ROW, SATTR row-num",
    "RANGE 6, RATTR t, SLIDE 3 ROWS, SATTR row-num",
    "RANGE 15, RATTR t, SLIDE 2 ROWS, SATTR row-num, PA k",
    "RANGE 1, RATTR t, SLIDE 1 ROW, SATTR rank(t)",
    "RANGE 9, RATTR t, SLIDE 3 ROWS, SATTR rank(t)",
    "RANGE 9, RATTR t, SLIDE 2 ROWS, SATTR rank(t), PA k",
]
WAYS: dict[str, Way] = {
    "rows": [],
    "blocks": [(counted_rows, "_ROWS_A_BLOCK", 2), (counted_rows, "_LONG", 2)],
    "few rows at once": [(counted_rows, "_AT_ONCE", 5)],
    "keys forgotten": [(key_expiry, "MANY", 1)],
}

test_against_the_reference = against_the_reference(
    SlideByTupleOperator, WAYS, WINDOWS, "window_id, window_start"
)


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
        patch.setattr(counted_rows, "_ROWS_A_BLOCK", 16)
        patch.setattr(counted_rows, "_LONG", 100)
        check(sql, Stream(rows, {"delay": 20}), OPERATORS)


def test_state_is_forgotten() -> None:
    rows: list[Row] = [("d", "a", 1, 1.0, t) for t in range(100)]
    sql = "SELECT count(*) AS c [RANGE 10, RATTR t, SLIDE 1 ROW, SATTR row-num] FROM s"

    def ticks(operator: SlideByTupleOperator) -> int:
        return max((len(state.ticks) for state in operator.states.values()), default=0)

    most, operator = most_held(SlideByTupleOperator, sql, Stream(rows, {"delay": 5}), 7, ticks)
    assert 0 < most <= 10 + 7
    assert operator.states == {}
