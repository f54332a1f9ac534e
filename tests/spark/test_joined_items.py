"""Pairs of signed items in tasks and buckets, against the reference engine."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.nodes.query import QueryPlan
from tests.kernel.joins.interleaved import defined, planned
from tests.kernel.retractions.nested import QUERIES
from tests.kernel.retractions.test_against_reference import (
    LATE,
    PROMISE,
    RANGE,
    ROWS,
    streams,
    window,
)
from tests.kernel.retractions.test_joined_items import JOINS, SELECTS
from tests.planning import on_spark
from tests.reference.helpers import bag, tuples
from tests.spark.test_every_cut import cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark, rows_of

# of queries whose parts are chosen by hand, one; others are random altogether
BY_HAND = st.builds(
    lambda select, join, ranges: select.format(join.format(*map(window, ranges))),
    st.sampled_from(SELECTS),
    st.sampled_from(JOINS),
    st.tuples(RANGE, RANGE),
)


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(),
    rows=st.tuples(ROWS, ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE, PROMISE),
    query=BY_HAND | QUERIES,
    late=LATE,
    buckets=st.integers(1, 3),
    restarts=st.sets(st.integers(1, 7)),
)
def test_every_cut(
    data: st.DataObject,
    rows: Any,
    promises: Any,
    query: str,
    late: str,
    buckets: int,
    restarts: set[int],
) -> None:
    """Buckets number plain tuples by themselves, and what is above tells apart the pairs of all."""
    plan = planned(f"{query} {late}", streams(rows, promises), 1000)
    expected = defined(plan)
    job = WithoutSpark(plan, buckets)
    of_streams = {name: data.draw(cuts(len(each))) for name, each in rows_of(plan).items()}
    run_in_cuts(job, plan, of_streams, 100, restarts)
    assert bag(tuples(job.received.table(plan))) == bag(expected.rows)
    assert bag(tuples(job.received.late_table(plan))) == expected.late


def test_items_meet_what_they_take_back() -> None:
    """By keys in which they agree: those that say when items come and go send them elsewhere."""
    rows = [[("a", 0.0, v, t) for v, t in each] for each in ([(1, 0), (2, 1)], [(2, 3)], [(1, 2)])]
    given_ = streams(rows, [{"delay": 9}] * 3)
    left = "SELECT v, changed_at AS since, CAST(changed_at % 3 AS INT) AS m FROM l [RANGE 4, WA t]"
    items = f"({left} EXCEPT ON (v) r [RANGE 1, WA t])"
    sql = f"SELECT * FROM {items} d EXCEPT ON (m) (SELECT v AS m, t FROM o)"
    plan = planned(sql, given_, 1000)
    expected = bag(defined(plan).rows)
    for buckets in range(1, 6):
        job = WithoutSpark(plan, buckets)
        run_in_cuts(job, plan, {"l": [(0, 2)], "r": [(0, 1)], "o": [(0, 1)]}, 100, set())
        assert bag(tuples(job.received.table(plan))) == expected


def _meeting(plan: QueryPlan) -> list[list[str]]:
    """By what the tuples of joins meet."""
    joins = [node for node in on_spark(plan).root.walk() if node.operator.value == "OaJoin"]
    return [[str(port.slices or port.keys) for port in node.ports] for node in joins]


def test_slices_of_time() -> None:
    """Plain tuples go to one slice, so that all their pairs come from there."""
    given_ = streams([[], [], []], [{"delay": 9}] * 3)
    items = "(SELECT v, changed_at FROM l EXCEPT ON (k) r)"
    one = f"SELECT d.v, o.v AS w FROM {items} d [RANGE 4], o [RANGE 2] WHERE d.v < o.v"
    two = f"SELECT d.v, e.v AS w FROM {items} d [RANGE 4], {items} e [RANGE 2] WHERE d.v < e.v"
    ((left, right),) = _meeting(planned(one, given_, 1000))
    assert "in which they may have partners" in left
    assert right == "slices of 24 of o.t"
    assert _meeting(planned(two, given_, 1000)) == [["()", "()"]]
