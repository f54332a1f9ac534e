"""Stamps of LATENT streams: the time of the clock, which may go back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.operator import Item, LateRows, Progress
from penstock.kernel.stateless import StampOperator
from penstock.kernel.windows.landmark import LandmarkOperator
from penstock.model.clock import ManualClock
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.node import Stamp
from penstock.plan.nodes.query import QueryPlan
from penstock.reference.engine import answer
from tests.kernel.driving import Operators, examples, items, restarting, run


class Readings:
    """A clock that shows given times, one after the other, and may go back."""

    def __init__(self, times: list[int]) -> None:
        self._times = iter(times)

    def now(self) -> int:
        return next(self._times)


def planned(rows: int, cut: int) -> QueryPlan:
    db = ps.connect("reference")
    batches = [
        pa.record_batch({"v": pa.array(range(at, min(rows, at + cut)), pa.int64())})
        for at in range(0, rows, cut)
    ]
    db.stream("s", batches, progress=ps.progress("ts", timestamps="latent"))
    query = db.sql(
        "SELECT window_end, count(*) AS c, last(v) AS l [RANGE ALL, SLIDE 10 MICROSECONDS, WA ts]"
        " FROM s"
    )
    assert isinstance(query, ps.Query)
    return query.plan


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("cut", [1, 7, 1000])
@examples
@given(times=st.lists(st.integers(-30, 90), min_size=1, max_size=20))
def test_against_the_reference(restarts: bool, cut: int, times: list[int]) -> None:
    plan = planned(len(times), cut)
    clock = Readings(times)
    operators: Operators = {
        WindowAggregate: LandmarkOperator,
        Stamp: lambda node: StampOperator(node, clock),
    }
    found = answer(plan, Readings(times))
    rows, late = run(plan, restarting(operators) if restarts else operators)
    table = found.table
    ends = table.column("window_end").cast(pa.int64()).to_pylist()
    rest = [table.column(name).to_pylist() for name in ("c", "l")]
    assert rows == sorted(map(repr, zip(ends, *rest, strict=True)))
    assert len(late) == found.late.num_rows


def test_stamps_do_not_go_back_with_the_clock() -> None:
    plan = planned(5, cut=3)
    node = next(each for each in plan.walk() if isinstance(each, Stamp))
    operator = StampOperator(node, Readings([5, 3, 7, 6, 8]))
    made: list[Item] = []
    for item in items(node.input, {}, ManualClock()):
        assert not isinstance(item, LateRows)
        if isinstance(item, Progress):
            made += operator.on_progress(0, item)
        else:
            made += operator.on_batch(0, item)
    first, after_first, second, after_second, end = made
    name = "s.ts"
    assert first.broken is None
    assert second.broken is None
    stamps = [each.rows.column("s.ts").cast(pa.int64()).to_pylist() for each in (first, second)]
    assert stamps == [[5, 5, 7], [7, 8]]
    assert (after_first.bounds, after_second.high) == ({name: 7}, {name: 8})
    assert end.ended
