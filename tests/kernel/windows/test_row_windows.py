"""Row windows against the reference engine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.batch import Batch
from penstock.kernel.grouping import folding as key_expiry
from penstock.kernel.operator import Progress
from penstock.kernel.windows import counted_rows, row_windows
from penstock.kernel.windows.row_windows import RowsOperator
from penstock.model.clock import ManualClock
from penstock.plan.nodes.aggregation import WindowAggregate
from tests.kernel.driving import ALL, ROWS, Row, Stream, check, examples, items, planned
from tests.kernel.windows.ways import Way, against_the_reference, most_held

OPERATORS = {WindowAggregate: RowsOperator}
SIZES = [
    "RANGE 3 ROWS, SLIDE 1 ROW",
    "RANGE 4 ROWS, SLIDE 2 ROWS",
    "RANGE 2 ROWS, SLIDE 5 ROWS",
    "RANGE 7 ROWS, SLIDE 3 ROWS",
    "RANGE ALL, SLIDE 3 ROWS",
    "RANGE 64 ROWS, SLIDE 32 ROWS",
]
ORDERS = ["row-num", "row-num, PA k", "rank(t)", "rank(t), PA k", "rank(t), PA i"]
WINDOWS = [f"{sizes}, WA {order}" for sizes in SIZES for order in ORDERS]
# How windows are put together: from rows, from blocks of rows, or from panes.
WAYS: dict[str, Way] = {
    "rows": [],
    "blocks": [(counted_rows, "_ROWS_A_BLOCK", 2), (counted_rows, "_LONG", 2)],
    "few rows at once": [(counted_rows, "_AT_ONCE", 5)],
    "panes": [(row_windows, "_WIDE_PANE", 1)],
    "rows, keys forgotten": [(key_expiry, "MANY", 1), (row_windows, "_FEW", 1)],
    "panes, keys forgotten": [(row_windows, "_WIDE_PANE", 1), (key_expiry, "MANY", 1)],
}


test_against_the_reference = against_the_reference(RowsOperator, WAYS, WINDOWS, "window_id")


@examples
@given(rows=ROWS, sizes=st.sampled_from(SIZES))
def test_streams_that_promise_nothing(rows: list[Row], sizes: str) -> None:
    sql = f"SELECT window_start, {ALL} [{sizes}, WA row-num, PA k] FROM s GROUP BY i"
    check(sql, Stream(rows, None), OPERATORS)


def test_windows_leave_when_they_are_full() -> None:
    rows = [("d", "a", n, 1.0, 0) for n in range(5)]
    sql = "SELECT window_id, sum(i) AS n [RANGE 4 ROWS, SLIDE 2 ROWS, WA row-num] FROM s"
    plan = planned(sql, Stream(rows, None), cut=1)
    log: list[Any] = []
    for item in items(plan.input, OPERATORS, ManualClock()):
        if isinstance(item, Progress):
            log.append("end" if item.ended else item.bounds["window_id"])
        elif isinstance(item, Batch):
            log.append(list(zip(*item.rows.to_pydict().values(), strict=True)))
    assert log == [[(0, 1)], 1, [(1, 6)], 2, [(2, 9), (3, 4)], "end"]


@pytest.mark.parametrize("order", ["row-num", "row-num, PA k"])
@pytest.mark.parametrize("sizes", ["RANGE 4 ROWS, SLIDE 2 ROWS", "RANGE 64 ROWS, SLIDE 32 ROWS"])
def test_keys_are_forgotten(sizes: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_expiry, "MANY", 8)
    rows = [("d", "ab"[n % 2], n, 1.0, 0) for n in range(4000)]
    sql = f"SELECT count(*) AS c [{sizes}, WA {order}] FROM s GROUP BY i"

    def keys(operator: RowsOperator) -> int:
        return max(len(each.folder.keys) for each in (operator, *operator.states.values()))

    most, _ = most_held(RowsOperator, sql, Stream(rows, None), 20, keys)
    assert 0 < most < 1000
