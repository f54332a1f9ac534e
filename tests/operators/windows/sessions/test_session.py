"""Session windows against the reference engine."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.clock import ManualClock
from penstock.operators.folding import key_expiry
from penstock.operators.windows.sessions import open_sessions
from penstock.operators.windows.sessions.session import SessionOperator
from penstock.plan.aggregates import WindowAggregate
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

OPERATORS = {WindowAggregate: SessionOperator}
WINDOWS = [
    "SESSION GAP 1, WA t",
    "SESSION GAP 3, WA t",
    "SESSION GAP 9, WA t",
    "SESSION GAP 3, MAX 7, WA t",
    "SESSION GAP 5, MAX 2, WA t",
]
WAYS: dict[str, list[tuple[ModuleType, str, int]]] = {
    "as it is": [],
    "small blocks": [(open_sessions, "_BLOCK", 2)],
    "numbers given up": [(open_sessions, "_FEW", 1), (open_sessions, "_BLOCK", 2)],
    "keys forgotten": [(key_expiry, "MANY", 1)],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@examples
@given(
    rows=ROWS,
    promise=PROMISE,
    window=st.sampled_from(WINDOWS),
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
    sql = f"SELECT window_id, window_start, window_end, {aggregates} [{window}] FROM s {keys}"
    with pytest.MonkeyPatch.context() as patch:
        for change in way:
            patch.setattr(*change)
        check(sql, Stream(rows, promise), OPERATORS)


@examples
@given(rows=ROWS, promise=PROMISE, most=st.sampled_from(["", "MAX 4.5, "]))
def test_decimals_and_several_inputs(rows: list[Row], promise: dict[str, Any], most: str) -> None:
    """Ids are values of the attribute; the slower input holds sessions back."""
    sql = (
        f"SELECT window_id, {ALL} [SESSION GAP 2.25, {most}WA u] FROM ("
        "SELECT k, i, x, CAST(t AS DECIMAL(9,2)) AS u FROM s UNION ALL "
        "SELECT k, i, x, CAST(t + 3 AS DECIMAL(9,2)) AS u FROM s) GROUP BY k"
    )
    check(sql, Stream(rows, promise), OPERATORS)


@pytest.mark.parametrize("most", ["", "MAX 40, "])
def test_many_rows(most: str) -> None:
    """Enough for every way in which rows are put in order, and groups with many sessions."""
    random = np.random.default_rng(5)
    times = np.cumsum(random.integers(0, 3, 400)) + random.integers(0, 60, 400)
    keys = random.integers(0, 20, 400)
    rows = [("d", f"k{k}", int(k), 1.0, int(t)) for k, t in zip(keys.tolist(), times, strict=True)]
    sql = f"SELECT k, window_end, {DIFFERENTIAL} [SESSION GAP 20, {most}WA t] FROM s GROUP BY k"
    check(sql, Stream(rows, {"delay": 60}), OPERATORS)


def test_state_is_forgotten_and_tuples_are_not_kept() -> None:
    made: list[SessionOperator] = []

    def operator(node: Any) -> SessionOperator:
        made.append(SessionOperator(node))
        return made[-1]

    rows: list[Row] = [("d", f"k{t % 3}", 1, 1.0, t - t % 7) for t in range(3000)]
    sql = "SELECT k, count(*) AS c [SESSION GAP 2, WA t] FROM s GROUP BY k"
    plan = planned(sql, Stream(rows, {"delay": 7}), cut=50)
    most = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_sessions, "_FEW", 1)
        for _ in items(plan.inputs[0], {WindowAggregate: operator}, ManualClock()):
            most = max(most, len(made[0].sessions.groups))
            assert made[0].metrics().rows == 0
    assert most < 200
    assert made[0].open_results().count == 0
