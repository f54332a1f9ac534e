"""Differences in tasks and buckets, against the reference engine, and items in later stages."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.query import Late
from tests.operators.joins.interleaved import Given, defined, planned
from tests.operators.joins.test_sequences import PROMISE, ROWS, SCHEMA
from tests.reference.helpers import bag, tuples
from tests.spark.test_every_cut import cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

DIFFERENCES = (
    "a [RANGE 5] EXCEPT ON (k) b [RANGE 2]",
    "a EXCEPT ON (k) b [RANGE 3]",
    "a [RANGE 4] EXCEPT ON (k, x) b",
)
SELECTS = (
    "SELECT k, v, t, changed_at FROM {items} {late}",
    "SELECT k, v, changed_at FROM {items} WHERE v > 1 {late}",
)


@settings(max_examples=150)
@given(
    data=st.data(),
    left=ROWS,
    right=ROWS,
    promises=st.tuples(PROMISE, PROMISE),
    select=st.sampled_from(SELECTS),
    items=st.sampled_from(DIFFERENCES),
    late=st.sampled_from(["", "LATE SIDE", "LATE AMEND FOR 3"]),
    buckets=st.integers(1, 3),
    restarts=st.sets(st.integers(1, 7)),
)
def test_every_cut(
    data: st.DataObject,
    left: list[Any],
    right: list[Any],
    promises: tuple[Any, Any],
    select: str,
    items: str,
    late: str,
    buckets: int,
    restarts: set[int],
) -> None:
    streams = {"a": Given(SCHEMA, left, promises[0]), "b": Given(SCHEMA, right, promises[1])}
    plan = planned(select.format(items=items, late=late), streams, 1000)
    expected = defined(plan)
    job = WithoutSpark(plan, buckets)
    of_streams = {
        name: data.draw(cuts(len(each.rows)), label=name) for name, each in streams.items()
    }
    run_in_cuts(job, plan, of_streams, 100, restarts)
    assert bag(tuples(job.received.table(plan))) == bag(expected.rows)
    if plan.late is not Late.DROP:
        assert bag(tuples(job.received.late_table())) == expected.late
