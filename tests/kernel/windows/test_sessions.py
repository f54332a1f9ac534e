"""Session windows against the reference engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.grouping import folding as key_expiry
from penstock.kernel.windows import sessions as open_sessions
from penstock.kernel.windows.sessions import SessionOperator
from penstock.plan.nodes.aggregation import WindowAggregate
from tests.kernel.driving import ALL, DIFFERENTIAL, PROMISE, ROWS, Row, Stream, check, examples
from tests.kernel.windows.ways import Way, against_the_reference, most_held

OPERATORS = {WindowAggregate: SessionOperator}
WINDOWS = [
    "SESSION GAP 1, WA t",
    "SESSION GAP 3, WA t",
    "SESSION GAP 9, WA t",
    "SESSION GAP 3, MAX 7, WA t",
    "SESSION GAP 5, MAX 2, WA t",
]
WAYS: dict[str, Way] = {
    "as it is": [],
    "small blocks": [(open_sessions, "_BLOCK", 2)],
    "numbers given up": [(open_sessions, "_FEW", 1), (open_sessions, "_BLOCK", 2)],
    "keys forgotten": [(key_expiry, "MANY", 1)],
}


test_against_the_reference = against_the_reference(
    SessionOperator, WAYS, WINDOWS, "window_id, window_start, window_end"
)


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
    rows: list[Row] = [("d", f"k{t % 3}", 1, 1.0, t - t % 7) for t in range(3000)]
    sql = "SELECT k, count(*) AS c [SESSION GAP 2, WA t] FROM s GROUP BY k"

    def groups(operator: SessionOperator) -> int:
        assert operator.metrics().rows == 0
        return len(operator.sessions.groups)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_sessions, "_FEW", 1)
        most, operator = most_held(SessionOperator, sql, Stream(rows, {"delay": 7}), 50, groups)
    assert most < 200
    assert operator.open_results().count == 0
