"""LATE AMEND and EMIT EARLY: what is left of the revisions is the answer of the reference."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.kernel.revisions.revised_panes import RevisingSliding
from penstock.model.clock import ManualClock
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.physical import Asked
from tests.kernel.driving import (
    ALL,
    DIFFERENTIAL,
    PROMISE,
    ROWS,
    Row,
    Stream,
    examples,
    items,
    planned,
)
from tests.kernel.revising_helper import check, revised

LENGTH = st.integers(1, 9)
EARLY = st.integers(0, 3)
RESTART = st.integers(0, 2)
LATE = st.sampled_from(
    ["LATE AMEND", "LATE AMEND FOR 1", "LATE AMEND FOR 6", "LATE AMEND FOR 40", "LATE SIDE"]
)
# Without AMEND only early answers revise anything, so the query always asks for them.
EMIT = "EMIT EARLY EVERY 1 SECOND"


@pytest.mark.parametrize("calls", [DIFFERENTIAL, ALL], ids=["differential", "all"])
@examples
@given(
    rows=ROWS,
    promise=PROMISE,
    range_=LENGTH,
    slide=LENGTH,
    late=LATE,
    early=EARLY,
    restart=RESTART,
    keyed=st.booleans(),
)
def test_sliding(
    calls: str,
    rows: list[Row],
    promise: dict[str, object],
    range_: int,
    slide: int,
    late: str,
    early: int,
    restart: int,
    keyed: bool,
) -> None:
    keys, group = ("k, ", "GROUP BY k") if keyed else ("", "")
    sql = f"SELECT {keys}{calls} [RANGE {range_}, SLIDE {slide}, WA t] FROM s {group} {late} {EMIT}"
    check(sql, Stream(rows, promise), early, restart)


@pytest.mark.parametrize("calls", [DIFFERENTIAL, ALL], ids=["differential", "all"])
@examples
@given(rows=ROWS, promise=PROMISE, slide=LENGTH, late=LATE, early=EARLY, restart=RESTART)
def test_landmark(
    calls: str,
    rows: list[Row],
    promise: dict[str, object],
    slide: int,
    late: str,
    early: int,
    restart: int,
) -> None:
    sql = f"SELECT k, {calls} [RANGE ALL, SLIDE {slide}, WA t] FROM s GROUP BY k {late} {EMIT}"
    check(sql, Stream(rows, promise), early, restart)


@pytest.mark.parametrize("keys", ["t", "k, t", "t, k, t * 2 AS u", "t + 3 AS u, k"])
@examples
@given(rows=ROWS, promise=PROMISE, late=LATE, early=EARLY, restart=RESTART)
def test_groups(
    keys: str,
    rows: list[Row],
    promise: dict[str, object],
    late: str,
    early: int,
    restart: int,
) -> None:
    by = ", ".join(key.rpartition(" AS ")[2] for key in keys.split(", "))
    sql = f"SELECT {keys}, {ALL} FROM s GROUP BY {by} {late} {EMIT}"
    check(sql, Stream(rows, promise), early, restart)


@examples
@given(rows=ROWS, promise=PROMISE, late=LATE, restart=RESTART)
def test_distinct(rows: list[Row], promise: dict[str, object], late: str, restart: int) -> None:
    check(f"SELECT DISTINCT k, x, t FROM s {late} {EMIT}", Stream(rows, promise), restart=restart)


@examples
@example(rows=[("d", "a", 1, 0.0, 0), ("d", "b", 1, 0.0, 20), ("d", "a", 5, 0.0, 1)])
@given(rows=ROWS)
def test_filters_and_projections_pass_signs_on(rows: list[Row]) -> None:
    sql = (
        "SELECT k, sum(i) * 2 AS twice [RANGE 6, SLIDE 3, WA t] FROM s GROUP BY k"
        f" HAVING sum(i) > 1 LATE AMEND {EMIT}"
    )
    check(sql, Stream(rows, {"delay": 2}), early=2)


# --- what is said --------------------------------------------------------------------------------


def said(sql: str, rows: list[Row], early: int = 0) -> list[tuple[int, str]]:
    return revised(planned(sql, Stream(rows, {"delay": 0}), 1), early)[2]


def test_only_groups_that_changed_are_revised() -> None:
    rows: list[Row] = [("d", k, 1, 0.0, t) for k, t in [("a", 0), ("b", 1), ("a", 9), ("b", 2)]]
    sql = "SELECT k, sum(i) AS s [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k LATE AMEND"
    assert said(sql, rows) == [
        (1, "(0, 5, 'a', 1)"),
        (1, "(0, 5, 'b', 1)"),
        (-1, "(0, 5, 'b', 1)"),
        (1, "(0, 5, 'b', 2)"),
        (1, "(5, 10, 'a', 1)"),
    ]


def test_a_result_that_stays_the_same_is_not_said_again() -> None:
    rows: list[Row] = [("d", "a", i, 0.0, t) for i, t in [(3, 0), (1, 9), (2, 1), (3, 2)]]
    sql = "SELECT max(i) AS m [RANGE 5, SLIDE 5, WA t] FROM s LATE AMEND"
    assert said(sql, rows) == [(1, "(0, 5, 3)"), (1, "(5, 10, 1)")]


def test_a_window_that_had_no_tuples_comes_to_be() -> None:
    rows: list[Row] = [("d", "a", i, 0.0, t) for i, t in [(3, 0), (1, 19), (2, 8)]]
    sql = "SELECT sum(i) AS s [RANGE 5, SLIDE 5, WA t] FROM s LATE AMEND"
    assert said(sql, rows) == [(1, "(0, 5, 3)"), (1, "(5, 10, 2)"), (1, "(15, 20, 1)")]


def test_early_answers_are_replaced() -> None:
    rows: list[Row] = [("d", "a", i, 0.0, t) for i, t in [(3, 0), (1, 1), (0, 2), (5, 7)]]
    sql = f"SELECT sum(i) AS s [RANGE 5, SLIDE 5, WA t] FROM s {EMIT}"
    assert said(sql, rows, early=1) == [
        (1, "(0, 5, 3)"),
        (-1, "(0, 5, 3)"),
        (1, "(0, 5, 4)"),  # neither the third tuple nor the end of the window changes it
        (1, "(5, 10, 5)"),
    ]


def test_what_is_final_is_forgotten() -> None:
    """State does not grow with a stream, but with the time for which it can be amended."""
    rows: list[Row] = [("d", f"k{t}", 1, 0.0, t) for t in range(20_000)]
    sql = "SELECT k, sum(i) AS s [RANGE 6, SLIDE 3, WA t] FROM s GROUP BY k LATE AMEND FOR 30"
    plan = planned(sql, Stream(rows, {"ordered": True}), 1000)
    made: list[RevisingSliding] = []
    sizes = []

    def make(node: WindowAggregate) -> RevisingSliding:
        made.append(RevisingSliding(node, Asked(True, plan.amend_for), ManualClock()))
        return made[-1]

    for _ in items(plan.input, {WindowAggregate: make}, ManualClock()):
        sizes.append((len(made[0].panes.numbers), len(made[0].shown), len(made[0].folder.keys)))
    panes, shown, keys = (max(each) for each in zip(*sizes, strict=True))
    assert panes <= (1000 + 36) // 3 + 3
    assert shown <= (1000 + 36) // 3 + 3
    assert keys <= 2 * 4096
