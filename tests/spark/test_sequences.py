"""Sequences in tasks and buckets, against the reference engine: by keys, by slices of time where
WITHIN says how far they reach, and in one bucket where they may reach anywhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.nodes.query import Late, QueryPlan
from penstock.spark.stages import Stage, paths_of
from tests.kernel.joins.interleaved import Given, defined, keeping, planned
from tests.kernel.joins.test_sequences import ON, PROMISE, ROWS, SCHEMA
from tests.planning import on_spark
from tests.reference.helpers import bag, tuples
from tests.spark.test_every_cut import cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

ROW_WINDOW = "count(a.t) AS n, first(a.v) AS f, sum(a.v) AS s [RANGE 3 ROWS, SLIDE 2 ROWS]"
SELECTS = (
    "SELECT * FROM {pairs} {late}",
    "SELECT b.k AS k, count(*) AS n, max(a.v) AS hi [RANGE 5, SLIDE 5, WA b.t] FROM {pairs}"
    " GROUP BY b.k {late}",
    f"SELECT {ROW_WINDOW} FROM {{pairs}}",
)


@settings(max_examples=250)
@given(
    data=st.data(),
    first=ROWS,
    second=ROWS,
    promises=st.tuples(PROMISE, PROMISE),
    select=st.sampled_from(SELECTS),
    mode=st.sampled_from(["RECENT", "CHRONICLE"]),
    on=st.sampled_from(ON),
    within=st.none() | st.sampled_from([0, 2, 5, 1000]),
    keeps=st.tuples(st.booleans(), st.booleans()),
    late=st.sampled_from(["", "LATE SIDE", "LATE AMEND FOR 3"]),
    buckets=st.integers(1, 3),
    restarts=st.sets(st.integers(1, 7)),
)
def test_every_cut(
    data: st.DataObject,
    first: list[Any],
    second: list[Any],
    promises: tuple[Any, Any],
    select: str,
    mode: str,
    on: str,
    within: int | None,
    keeps: tuple[bool, bool],
    late: str,
    buckets: int,
    restarts: set[int],
) -> None:
    clauses = f"MODE {mode} {on}" + (f" WITHIN {within}" if within is not None else "")
    keeps_first = keeps[0] and within is not None and "WA b.t" not in select
    change = keeping(keeps_first, keeps[1])
    sql = select.format(pairs=f"SEQUENCE(a THEN b {clauses})", late=late)
    streams = {"a": Given(SCHEMA, first, promises[0]), "b": Given(SCHEMA, second, promises[1])}
    plan = planned(sql, streams, 1000, change)
    expected = defined(plan)
    job = WithoutSpark(plan, buckets)
    of_streams = {
        name: data.draw(cuts(len(each.rows)), label=name) for name, each in streams.items()
    }
    run_in_cuts(job, plan, of_streams, 100, restarts)
    assert bag(tuples(job.received.table(plan))) == bag(expected.rows)
    if plan.late is not Late.DROP:
        assert bag(tuples(job.received.late_table())) == expected.late


def one_bucket(clauses: str, keeps: tuple[bool, bool] = (False, False), rows: str = "*") -> bool:
    """Whether all tuples of a sequence meet in one bucket."""
    nothing = {name: Given(SCHEMA, [], {"delay": 3}) for name in "ab"}
    sql = f"SELECT {rows} FROM SEQUENCE(a THEN b MODE {clauses})"
    plan: QueryPlan = planned(sql, nothing, 1, keeping(*keeps))
    stages = [each.leaf for each in paths_of(on_spark(plan).root)]
    *_, sequence = [stage for top in stages if isinstance(top, Stage) for stage in top.stages()][:1]
    return sequence.one_bucket


@pytest.mark.parametrize("mode", ["RECENT", "CHRONICLE"])
def test_equal_keys_meet_in_buckets_of_their_own(mode: str) -> None:
    assert not one_bucket(f"{mode} ON a.k = b.k")
    assert not one_bucket(f"{mode} ON a.k = b.k WITHIN 3", (True, True))


def test_which_sequences_meet_in_one_bucket() -> None:
    assert not one_bucket("RECENT WITHIN 3")
    assert not one_bucket("RECENT ON a.v < b.v WITHIN 3", (False, True))
    assert one_bucket("RECENT")  # reaches back for ever
    assert one_bucket("RECENT WITHIN 3", (True, False))  # who is alone in all slices?
    assert one_bucket("CHRONICLE WITHIN 3")  # what one slice uses up, the next has not
    assert one_bucket("RECENT ON a.k = b.k", rows=ROW_WINDOW)  # in the order of time
