"""OVER, QUALIFY and LIMIT against the reference engine: all cuts, restarts, NULLs, late rows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.operator import Operator
from penstock.kernel.over import frames, partitions, time_order
from penstock.kernel.over.partitions import CompletePartitions
from penstock.kernel.over.time_order import RowsAhead, RowsInTime
from penstock.kernel.windows.paned import Paned
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.over import Over
from tests.kernel.driving import PROMISE, ROWS, Operators, Row, Stream, check

examples = settings(deadline=None, max_examples=12)


def operator(node: Over) -> Operator:
    if node.completing is not None:
        return CompletePartitions(node, None)
    return RowsAhead(node, None) if node.waits else RowsInTime(node, None)


OPERATORS: Operators = {Over: operator, WindowAggregate: Paned}

BACK = [
    "RANGE BETWEEN 7 PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN 9 PRECEDING AND 3 PRECEDING",
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING",
    "ROWS 1 PRECEDING",
    "RANGE CURRENT ROW",
    "GROUPS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    "ROWS 3 PRECEDING EXCLUDE CURRENT ROW",
    "ROWS BETWEEN 4 PRECEDING AND 1 PRECEDING EXCLUDE TIES",
    "RANGE BETWEEN 6 PRECEDING AND CURRENT ROW EXCLUDE GROUP",
]
RUNNING = [
    "",
    "ROWS UNBOUNDED PRECEDING",
    "RANGE UNBOUNDED PRECEDING",
    "GROUPS UNBOUNDED PRECEDING",
    "ROWS UNBOUNDED PRECEDING EXCLUDE GROUP",
    "RANGE UNBOUNDED PRECEDING EXCLUDE CURRENT ROW",
    "RANGE UNBOUNDED PRECEDING EXCLUDE TIES",
]
AHEAD = [
    "RANGE BETWEEN 4 PRECEDING AND 3 FOLLOWING",
    "ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    "RANGE BETWEEN 2 FOLLOWING AND 6 FOLLOWING",
    "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE TIES",
    "RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING EXCLUDE CURRENT ROW",
]
WHOLE = [
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "GROUPS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP",
]
CARRIED = [
    *("count(*)", "count(x)", "sum(i)", "sum(x)", "avg(x)", "avg(i)", "stddev(x)", "min(x)"),
    *("max(k)", "bool_or(i > 1)", "max_by(k, x)", "min_by(i, x)", "first_value(x)"),
    *("first_value(x) IGNORE NULLS", "last_value(k) IGNORE NULLS"),
    *("last_value(i)", "sum(i) FILTER (WHERE i > 0)", "max(i) FILTER (WHERE x > 0)"),
]
OTHERS = ["median(x)", "count(DISTINCT i)", "string_agg(k, ',')", "array_agg(k)", "nth_value(x, 2)"]
OTHERS += ["nth_value(k, 2) IGNORE NULLS"]
NUMBERS = ["row_number()", "rank()", "dense_rank()"]
NEIGHBOURS = ["lag(x)", "lag(k, 2)", "lag(i, 1, 7)", "lag(x, 0)"]
NEIGHBOURS += ["lag(x) IGNORE NULLS", "lag(k, 2, 'none') IGNORE NULLS", "lag(i, 3) IGNORE NULLS"]
SHARES = ["ntile(3)", "percent_rank()", "cume_dist()", "lead(x) IGNORE NULLS"]
SHARES += ["lead(i, 2, 7) IGNORE NULLS"]
PARTITIONS = ["", "PARTITION BY k ", "PARTITION BY k, i > 0 "]


def over(call: str, partition: str, order: str, frame: str) -> str:
    return f"{call} OVER ({partition}ORDER BY {order} {frame})"


@st.composite
def calls_in_time(draw: st.DrawFn) -> str:
    partition = draw(st.sampled_from(PARTITIONS))
    order = draw(st.sampled_from(["t", "t", "t, x DESC", "t, i DESC NULLS LAST, k"]))
    lengths = [each for each in BACK if order == "t" or "RANGE" not in each]
    made = []
    for _ in range(draw(st.integers(1, 4))):
        match draw(st.integers(0, 3)):
            case 0:
                call, frame = draw(st.sampled_from(CARRIED)), draw(st.sampled_from(RUNNING))
            case 1:
                call = draw(st.sampled_from(CARRIED + OTHERS))
                frame = draw(st.sampled_from(lengths))
            case 2:
                call, frame = draw(st.sampled_from(NUMBERS)), ""
            case _:
                call, frame = draw(st.sampled_from(NEIGHBOURS)), ""
        made.append(over(call, partition, order, frame))
    return ", ".join(f"{each} AS c{place}" for place, each in enumerate(made))


@examples
@given(rows=ROWS, promise=PROMISE, calls=calls_in_time())
def test_rows_in_time(rows: list[Row], promise: dict[str, object], calls: str) -> None:
    check(f"SELECT k, i, t, {calls} FROM s LATE SIDE", Stream(rows, promise), OPERATORS)


@examples
@given(
    rows=ROWS,
    promise=PROMISE,
    partition=st.sampled_from(PARTITIONS),
    calls=st.lists(
        st.tuples(st.sampled_from(CARRIED + OTHERS), st.sampled_from(AHEAD)), min_size=1, max_size=3
    ),
    lead=st.sampled_from(["lead(x)", "lead(k, 2, 'none')", "lag(i)"]),
)
def test_rows_ahead(
    rows: list[Row],
    promise: dict[str, object],
    partition: str,
    calls: list[tuple[str, str]],
    lead: str,
) -> None:
    made = [over(call, partition, "t", frame) for call, frame in calls]
    made.append(over(lead, partition, "t", ""))
    shown = ", ".join(f"{each} AS c{place}" for place, each in enumerate(made))
    check(f"SELECT k, x, t, {shown} FROM s LATE SIDE", Stream(rows, promise), OPERATORS)


@examples
@given(
    rows=ROWS,
    promise=PROMISE,
    partition=st.sampled_from(["date_bin(5, t)", "k, t", "date_bin(9, t), k"]),
    order=st.sampled_from(["x", "x DESC, k", "k DESC NULLS LAST", "i NULLS FIRST"]),
    calls=st.lists(
        st.tuples(
            st.sampled_from(CARRIED + OTHERS), st.sampled_from(RUNNING + BACK + AHEAD + WHOLE)
        ),
        min_size=1,
        max_size=3,
    ),
    number=st.sampled_from([*NUMBERS, *NEIGHBOURS, *SHARES, "lead(k)"]),
    measured=st.sampled_from(["i NULLS FIRST", "i DESC", "i DESC NULLS LAST"]),
)
def test_complete_partitions(
    rows: list[Row],
    promise: dict[str, object],
    partition: str,
    order: str,
    calls: list[tuple[str, str]],
    number: str,
    measured: str,
) -> None:
    made = [over(number, f"PARTITION BY {partition} ", order, "")]
    for call, frame in calls:
        lengths = "RANGE BETWEEN" in frame and frame[14:].lstrip()[:1].isdigit()
        by = measured if lengths else order
        made.append(over(call, f"PARTITION BY {partition} ", by, frame))
    shown = ", ".join(f"{each} AS c{place}" for place, each in enumerate(made))
    sql = f"SELECT k, i, x, t, {shown} FROM s LATE SIDE"
    check(sql.replace("date_bin", "time_bucket"), Stream(rows, promise), OPERATORS)


LIMITS = [
    "SELECT k, x, t FROM s ORDER BY x DESC LIMIT 2 BY t",
    "SELECT k, i FROM s ORDER BY i NULLS FIRST, x LIMIT 1 BY time_bucket(7, t), k",
    "SELECT k, x FROM WINDOWED(s [RANGE 10, SLIDE 5, WA t]) LIMIT 2 BY window_end",
    "SELECT k, count(*) AS n [RANGE 9, SLIDE 4, WA t] FROM s GROUP BY k ORDER BY n DESC LIMIT 1",
    "SELECT k, sum(i) AS n [RANGE 9, SLIDE 9, WA t] FROM s GROUP BY k ORDER BY 2 LIMIT 1 BY n > 0",
    "SELECT k, x, t FROM s ORDER BY x DESC LIMIT 2 OFFSET 1 BY t",
    "SELECT k, i [RANGE 10, SLIDE 5, WA t] FROM s ORDER BY i, x OFFSET 2",
    "SELECT k, count(*) AS n [RANGE 9, SLIDE 4, WA t] FROM s GROUP BY k ORDER BY n DESC"
    " OFFSET 1 ROW FETCH NEXT 1 ROW ONLY",
    "SELECT k, t FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY t) = 1",
    "SELECT k, i, t FROM s QUALIFY rank() OVER (PARTITION BY time_bucket(9, t) ORDER BY i) < 3",
    "SELECT k FROM (SELECT *, dense_rank() OVER (PARTITION BY t ORDER BY x DESC) AS r FROM s)"
    " WHERE 2 >= r AND i > 0",
]


@pytest.mark.parametrize("sql", LIMITS)
@examples
@given(rows=ROWS, promise=PROMISE)
def test_limits(sql: str, rows: list[Row], promise: dict[str, object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "_FEW", 3)
        check(f"{sql} LATE SIDE", Stream(rows, promise), OPERATORS)


@examples
@given(rows=st.lists(ROWS, min_size=2, max_size=4), calls=calls_in_time())
def test_many_runs_of_kept_rows(rows: list[list[Row]], calls: str) -> None:
    """Rows in order leave a run of kept ones each, which are merged now and then."""
    given_rows = [row for some in rows for row in some]
    ordered = sorted(given_rows, key=lambda row: row[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_order, "_FEW", 1)
        patch.setattr(frames, "_AT_ONCE", 5)
        check(f"SELECT k, i, t, {calls} FROM s", Stream(ordered, {"ordered": True}), OPERATORS)
