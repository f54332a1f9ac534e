"""Differences in tasks and buckets, against the reference engine, and items in later stages."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.nodes.query import Late
from tests.kernel.joins.interleaved import Given, defined, planned
from tests.kernel.retractions.test_against_reference import (
    CALLS,
    PROMISE,
    RANGE,
    ROWS,
    SCHEMA,
    WINDOWS,
    window,
)
from tests.reference.helpers import bag, tuples
from tests.spark.test_every_cut import cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark, rows_of

ITEMS = "l {0} EXCEPT ON (k) r {1}"
OTHER = "(SELECT v, changed_at AS t FROM l {0} EXCEPT ON (k) o)"
UNION = f"((SELECT v, changed_at AS t FROM {ITEMS}) UNION ALL {OTHER})"
PLAIN = f"((SELECT v, changed_at AS t FROM {ITEMS}) UNION ALL (SELECT v, t FROM o))"
OF_ITEMS = [
    "SELECT k, v, t, changed_at FROM {items} {late}",
    "SELECT k, v, changed_at FROM {items} WHERE v > 1 {late}",
    *(f"SELECT {CALLS} {each} FROM {{items}}" for each in WINDOWS.values()),
    *(f"SELECT k, {CALLS} {each} FROM {{items}} GROUP BY k" for each in WINDOWS.values()),
    f"SELECT {CALLS} FROM {{items}} GROUP BY CAST(changed_at * 0.25 AS INT), k",
    "SELECT DISTINCT k, changed_at FROM {items}",
    "SELECT DISTINCT CAST(changed_at * 0.3 AS INT) AS at, k FROM {items} WHERE v = 1",
    "SELECT count(*) AS n [RANGE 3 ROWS, SLIDE 2 ROWS] FROM"
    " (SELECT DISTINCT k, v, changed_at FROM {items})",
    "SELECT * FROM (SELECT DISTINCT k, changed_at AS since FROM {items}) d [RANGE 3]"
    " EXCEPT ON (k) r",
    "SELECT changed_at AS t, k, v FROM {items} EMIT IN ORDER",
]
OF_UNIONS = [
    "SELECT count(*) AS n, sum(v) AS s [RANGE 5, SLIDE 2, WA t] FROM {items} LATE SIDE",
    "SELECT v, count(*) AS n [RANGE ALL, SLIDE 3, WA t] FROM {items} GROUP BY v LATE SIDE",
    "SELECT DISTINCT v, t FROM {items} LATE SIDE",
    "SELECT v, t FROM {items} WHERE v = 1 LATE SIDE",
    "SELECT t, v FROM {items} EMIT IN ORDER",
]
SELECTS = [
    *((select, ITEMS) for select in OF_ITEMS),
    *((select, items) for select in OF_UNIONS for items in (UNION, PLAIN)),
]


@settings(max_examples=120)
@given(
    data=st.data(),
    rows=st.tuples(ROWS, ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE, PROMISE),
    ranges=st.tuples(RANGE, RANGE),
    chosen=st.sampled_from(SELECTS),
    late=st.sampled_from(["", "LATE SIDE", "LATE AMEND FOR 3"]),
    buckets=st.integers(1, 3),
    restarts=st.sets(st.integers(1, 7)),
)
def test_every_cut(
    data: st.DataObject,
    rows: tuple[Any, Any, Any],
    promises: tuple[Any, Any, Any],
    ranges: tuple[Any, Any],
    chosen: tuple[str, str],
    late: str,
    buckets: int,
    restarts: set[int],
) -> None:
    """Buckets number the tuples of their differences by themselves, and windows above tell apart
    the items of all of them."""
    select, items = chosen
    sql = select.format(items=items.format(*map(window, ranges)), late=late)
    streams = {
        name: Given(SCHEMA, own, promise)
        for name, own, promise in zip("lro", rows, promises, strict=True)
    }
    plan = planned(sql, streams, 1000)
    expected = defined(plan)
    job = WithoutSpark(plan, buckets)
    read = {name: len(batch) for name, batch in rows_of(plan).items()}
    of_streams = {name: data.draw(cuts(size), label=name) for name, size in read.items()}
    run_in_cuts(job, plan, of_streams, 100, restarts)
    assert bag(tuples(job.received.table(plan))) == bag(expected.rows)
    if plan.late is not Late.DROP:
        assert bag(tuples(job.received.late_table(plan))) == expected.late
