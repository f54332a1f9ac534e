"""Landmark windows against the reference engine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.windows.landmark import LandmarkOperator
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

OPERATORS = {WindowAggregate: LandmarkOperator}


@pytest.mark.parametrize("aggregates", [DIFFERENTIAL, ALL], ids=["differential", "all"])
@examples
@given(
    rows=ROWS,
    promise=PROMISE,
    window=st.sampled_from(["SLIDE 8, WA t", "SLIDE 3, WA t, ORIGIN 1", "SLIDE 5, WA t + 2"]),
    rest=st.sampled_from(["", "GROUP BY k", "WHERE i > 1 GROUP BY k, i"]),
)
def test_against_the_reference(
    aggregates: str, rows: list[Row], promise: dict[str, Any], window: str, rest: str
) -> None:
    where = "WHERE i > 1" if rest.startswith("WHERE") else ""
    groups = rest.removeprefix("WHERE i > 1").strip()
    sql = (
        f"SELECT window_id, window_end, {aggregates} [RANGE ALL, {window}] FROM s {where} {groups}"
    )
    check(sql, Stream(rows, promise), OPERATORS)


@examples
@given(rows=ROWS, promise=PROMISE, slide=st.integers(1, 9))
def test_windows_over_windows(rows: list[Row], promise: dict[str, Any], slide: int) -> None:
    """The outer windows go on to where the inner ones have come, not to where they may come."""
    sql = (
        f"SELECT window_id, sum(n) AS s, last(n) AS l [RANGE ALL, SLIDE {slide}, WA window_end] "
        "FROM (SELECT window_end, count(*) AS n [RANGE ALL, SLIDE 4, WA t] FROM s) WHERE n < 4"
    )
    check(sql, Stream(rows, promise), OPERATORS)


def test_windows_leave_as_the_bound_passes_their_end() -> None:
    rows = [("d", "a", 1, 1.0, t) for t in (1, 9, 12, 31)]
    sql = "SELECT window_id, count(*) AS c [RANGE ALL, SLIDE 10, WA t] FROM s"
    plan = planned(sql, Stream(rows, {"ordered": True}), cut=1)
    log: list[Any] = []
    for item in items(plan.input, OPERATORS, ManualClock()):
        if isinstance(item, Progress):
            log.append("end" if item.ended else item.bounds.get("window_id"))
        elif isinstance(item, Batch):
            log.append(list(zip(*item.rows.to_pydict().values(), strict=True)))
    assert log == [0, 0, [(0, 2)], 1, [(1, 3), (2, 3)], 3, [(3, 4)], "end"]
