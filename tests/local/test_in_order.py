"""EMIT IN ORDER: rows leave in order, and what should have come before others is late."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import Scheduler
from penstock.model.clock import ManualClock
from penstock.runs.answer import Outlet
from tests.local.helpers import assert_same, recut
from tests.planning import in_process
from tests.reference.helpers import Row, Stream, ask, database, tuples
from tests.spark.test_every_cut import asked, assert_reference, cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

SCHEMA = "link STRING, k STRING, x INT, t INT"
ROWS = st.lists(
    st.tuples(
        st.sampled_from("uv"), st.sampled_from("ab"), st.sampled_from([0, 1]), st.integers(0, 20)
    ),
    max_size=15,
)
SELECTS = (
    "SELECT k, t FROM s",
    "SELECT k, t * 2 - 5 AS u, x FROM s WHERE x > 0",
    "SELECT DISTINCT t, k FROM s",
    "SELECT t, k FROM (SELECT t, k FROM s UNION ALL SELECT t, k FROM r) AS q",
)
WINDOWS = (
    "SELECT window_end, k, count(*) AS n [RANGE 5, SLIDE 3, WA t] FROM s GROUP BY k",
    "SELECT t, k, count(*) AS n FROM s GROUP BY t, k",
)
RULES = st.sampled_from([{"delay": 0}, {"delay": 3}, {"slack": 1}, {"ordered": True}])
LATE = st.sampled_from(["", " LATE SIDE", " LATE AMEND FOR 4", " LATE AMEND"])


def in_order(rows: list[Row], place: int) -> bool:
    ticks = [row[place] for row in rows]
    return ticks == sorted(ticks)


@settings(deadline=None, max_examples=80)
@given(rows=ROWS, rule=RULES, select=st.sampled_from(SELECTS + WINDOWS), late=LATE)
def test_every_cut_in_process(
    rows: list[Row], rule: dict[str, Any], select: str, late: str
) -> None:
    stream = Stream(SCHEMA, rows, ps.progress("t", **rule))
    other = Stream(SCHEMA, rows[::2], ps.progress("t", delay=2))
    streams = {"s": stream, "r": other} if " r)" in select else {"s": stream}
    sql = f"{select}{late} EMIT IN ORDER"
    assert_same(sql, (1, 3, None), **streams)
    if "AMEND" in late:
        return
    for cut in (1, 3, None):
        db = database(**streams)
        recut(db, cut)
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        written = Collected()
        run = LocalRun([in_process(query.plan)], [Outlet(query.plan, written)], ManualClock())
        Scheduler(run).drive()
        place = query.plan.schema.index(query.plan.progress[0].field.name)
        assert in_order(tuples(written.table), place)


@settings(deadline=None, max_examples=80)
@given(
    data=st.data(),
    rows=ROWS,
    rule=RULES,
    select=st.sampled_from(SELECTS + WINDOWS),
    late=st.sampled_from(["", " LATE SIDE"]),
    restarts=st.sets(st.integers(1, 4)),
)
def test_every_cut_on_spark(
    data: st.DataObject,
    rows: list[Row],
    rule: dict[str, Any],
    select: str,
    late: str,
    restarts: set[int],
) -> None:
    query = asked(f"{select}{late} EMIT IN ORDER", ps.progress("t", **rule), rows, rows[::2])
    planned = {"s": data.draw(cuts(len(rows)))}
    if " r)" in select:
        planned["r"] = data.draw(cuts(len(rows[::2])))
    job = WithoutSpark(query.plan, 2)
    run_in_cuts(job, query, planned, 2, restarts)
    assert_reference(query, job)
    if select in SELECTS:  # windows leave in order, and are sorted within a micro-batch
        place = query.plan.schema.index(query.plan.progress[0].field.name)
        assert in_order(tuples(job.received.table(query.plan)), place)


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_late_rows_are_counted_and_can_be_had(engine: str) -> None:
    rows = [("u", "a", 1, 5), ("u", "b", 1, 3), ("u", "c", 1, 7)]
    db = ps.connect(engine)
    db.stream("s", rows, schema=SCHEMA, progress=ps.progress("t", ordered=True))
    for late, kept in (("", 0), (" LATE SIDE", 1)):
        query = db.sql(f"SELECT k, t FROM s{late} EMIT IN ORDER")
        assert isinstance(query, ps.Query)
        assert tuples(query.collect()) == [("a", 5), ("c", 7)]
        assert query.account.late == 1
        if kept:
            assert tuples(query.late) == [("b", 3, 5, None, None)]


def test_what_is_amended_is_in_the_answer() -> None:
    rows = [("u", "a", 1, 15), ("u", "b", 1, 13), ("u", "c", 1, 1)]
    stream = Stream(SCHEMA, rows, ps.progress("t", ordered=True))
    query = ask("SELECT k FROM (SELECT k, t FROM s) AS q LATE AMEND FOR 4", s=stream)
    assert len(query.collect()) == 3  # nobody asked for an order
    query = ask("SELECT k, t FROM s LATE AMEND FOR 4 EMIT IN ORDER", s=stream)
    assert tuples(query.collect()) == [("b", 13), ("a", 15)]
    assert tuples(query.late) == [
        ("b", 13, 15, None, None, True),
        ("c", 1, 15, None, None, False),
    ]
