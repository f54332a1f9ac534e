"""Tasks and buckets against the reference engine: whatever the cut into micro-batches, the number
of buckets, the messages of a task and the restarts are, rows, late tuples and counts are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.spark.tasks import paths
from tests.reference.helpers import Row, bag, tuples
from tests.spark.without_spark import Given, WithoutSpark, rows_of, send_after

SCHEMA = "link STRING, k STRING, x INT, t INT"
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["u", "v", "w", None]),
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([None, 0, 1, 2, 7]),
        st.one_of(st.integers(-5, 40), st.integers(0, 25), st.none()),
    ),
    max_size=30,
)
RULES: list[dict[str, Any]] = [
    {"ordered": True},
    {"delay": 0},
    {"delay": 4},
    {"delay": 15},
    {"slack": 0},
    {"slack": 1},
    {"slack": 3},
    {"punctuated": ("x = 7", "t - 2")},
]
# Tuples of these are folded into panes before they are sent, if nobody asks for late ones.
PANED = (
    "SELECT /*+ paned */ k, count(*) AS n, sum(x) AS z [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k",
    "SELECT /*+ paned */ k, count(*) AS n, max(x) AS z [RANGE 10, SLIDE 4, WA t] FROM s GROUP BY k",
    "SELECT /*+ paned */ count(*) AS n, avg(x) AS mean [RANGE 3, SLIDE 5, WA t] FROM s",
    "SELECT /*+ paned */ k, max(x) AS z, last(k) AS l [RANGE 2, SLIDE 5, WA t] FROM s GROUP BY k",
    "SELECT /*+ paned */ k, count(x) AS n, first(x) AS f [RANGE 6, SLIDE 3, WA u]"
    " FROM (SELECT k, x, t * 2 + 1 AS u FROM s WHERE x > 0) AS q GROUP BY k",
)
OTHERS = (
    "SELECT /*+ wid */ k, max(x) AS z [RANGE 10, SLIDE 4, WA t] FROM s GROUP BY k",
    "SELECT /*+ adaptive */ k, sum(x) AS total [RANGE 9, SLIDE 3, WA t] FROM s GROUP BY k",
    "SELECT /*+ buffering */ k, count(*) AS n [RANGE 6, SLIDE 4, WA t] FROM s GROUP BY k",
    "SELECT k, median(x) AS m [RANGE 10, SLIDE 5, WA t] FROM s GROUP BY k",
    "SELECT k, count(*) AS n [RANGE ALL, SLIDE 5, WA t] FROM s GROUP BY k",
    "SELECT count(*) AS n, sum(x) AS total [RANGE 4 ROWS, SLIDE 2 ROWS, WA row-num] FROM s",
    "SELECT k, sum(x) AS total [RANGE 3 ROWS, SLIDE 1 ROWS, WA row-num, PA k] FROM s GROUP BY k",
    "SELECT k, last(x) AS z [RANGE 3 ROWS, SLIDE 2 ROWS, WA rank(t), PA k] FROM s GROUP BY k",
    "SELECT k, count(*) AS n [RANGE 6, RATTR t, SLIDE 1 ROW, SATTR rank(t)] FROM s GROUP BY k",
    "SELECT t, k, count(*) AS n FROM s GROUP BY t, k",
    "SELECT DISTINCT t, k FROM s",
    "SELECT DISTINCT ON (k) k, x [RANGE 10, SLIDE 4, WA t] FROM s",
    "SELECT max(n) AS most, count(*) AS answers [RANGE 20, SLIDE 10, WA window_start]"
    " FROM (SELECT k, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k) AS q",
    "SELECT k, sum(x) AS total [RANGE 10, SLIDE 5, WA t]"
    " FROM (SELECT k, x, t FROM s WHERE x <> 1 UNION ALL SELECT k, x, t FROM r) AS q GROUP BY k",
)

AMENDABLE = (
    *PANED,
    *(
        select
        for select in OTHERS
        if "ROW" not in select and "/*+" not in select and " r)" not in select
    ),
)


def asked(sql: str, progress: Any, s: list[Row], r: list[Row] | None = None) -> ps.Query:
    db = ps.connect("reference", strict=False)
    db.stream("s", s, schema=SCHEMA, progress=progress)
    db.stream("r", r or [], schema=SCHEMA, progress=ps.progress("t", delay=2))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def assert_reference(query: ps.Query, job: WithoutSpark) -> None:
    assert bag(tuples(job.received.table(query.plan))) == bag(tuples(query.collect()))
    account = query.account
    assert job.tally.late == account.late
    assert (job.tally.read, job.tally.rejected) == (account.read, account.rejected)
    if query.plan.late is not Late.DROP:
        assert bag(tuples(job.received.late_table())) == bag(tuples(query.late))


Cuts = list[tuple[int, int]]


@st.composite
def cuts(draw: st.DrawFn, rows: int, most: int = 6) -> Cuts:
    """From where to where each micro-batch goes; some may be empty."""
    inner = draw(st.lists(st.integers(0, rows), max_size=most))
    places = [0, *sorted(inner), rows]
    return list(pairwise(places))


def chunks(batch: pa.RecordBatch, begin: int, end: int, at_once: int) -> list[Chunk]:
    return [
        Chunk(batch.slice(start, min(at_once, end - start))) for start in range(begin, end, at_once)
    ]


def run_in_cuts(
    job: WithoutSpark,
    query: ps.Query | QueryPlan,
    planned: Mapping[str, Cuts],
    at_once: int,
    restarts: set[int],
) -> None:
    """A task for every stream in every micro-batch, until the last one of the stream."""
    found = rows_of(query if isinstance(query, QueryPlan) else query.plan)
    for number in range(max(map(len, planned.values()))):
        if number in restarts:
            job.restart()
        micro_batch = {}
        for name, places in planned.items():
            if number < len(places):
                read = chunks(found[name], *places[number], at_once)
                micro_batch[name] = [Given(read, ends=number == len(places) - 1)]
        job.run(micro_batch)


@settings(deadline=None, max_examples=250)
@given(
    data=st.data(),
    rule=st.sampled_from(RULES),
    per=st.sampled_from([None, "link"]),
    select=st.sampled_from([*PANED, *OTHERS]),
    late=st.sampled_from(["", " LATE SIDE", " LATE AMEND FOR 5"]),
    rows=ROWS,
    buckets=st.integers(1, 3),
    at_once=st.sampled_from([1, 2, 5, 100]),
    flush=st.sampled_from([1, 3, 1000]),
    worth=st.sampled_from([0, 2, 256]),
    gain=st.sampled_from([0, 1.25]),
    restarts=st.sets(st.integers(1, 7)),
)
def test_every_cut(
    data: st.DataObject,
    rule: dict[str, Any],
    per: str | None,
    select: str,
    late: str,
    rows: list[Row],
    buckets: int,
    at_once: int,
    flush: int,
    worth: int,
    gain: float,
    restarts: set[int],
) -> None:
    assume(late != " LATE AMEND FOR 5" or select in AMENDABLE)
    other = data.draw(ROWS, label="r") if " r)" in select else []
    query = asked(select + late, ps.progress("t", per=per, **rule), rows, other)
    given_rows = {"s": rows, "r": other} if other else {"s": rows}
    planned = {name: data.draw(cuts(len(each)), label=name) for name, each in given_rows.items()}
    if " r)" in select:
        planned.setdefault("r", [(0, 0)])
    job = WithoutSpark(query.plan, buckets)
    with pytest.MonkeyPatch.context() as patch:
        send_after(patch, flush)
        patch.setattr(paths, "_WORTH_PANES", worth)
        patch.setattr(paths, "_GAIN", gain)
        run_in_cuts(job, query, planned, at_once, restarts)
    assert_reference(query, job)


def test_a_pane_that_grew_when_it_was_saved_leaves_its_window() -> None:
    ticks = [("b", 0), ("b", 0), ("c", 0), ("a", -1), ("a", 5), ("a", 0), ("a", 0)]
    select = "SELECT k, median(x) AS m [RANGE 10, SLIDE 5, WA t] FROM s GROUP BY k"
    rows = [("u", k, None, t) for k, t in ticks]
    query = asked(select, ps.progress("t", ordered=True), rows)
    job = WithoutSpark(query.plan, 1)
    run_in_cuts(job, query, {"s": [(0, 5), (5, 7)]}, 1, set())
    assert_reference(query, job)


def test_a_newcomer_joins_at_what_slack_released_since_the_last_micro_batch() -> None:
    """The 0 of w releases its 30, which an earlier micro-batch brought; so the 25 of u is late."""
    rows = [("w", "a", 1, 30), ("w", "a", 1, 0), ("u", "a", 1, 25)]
    query = asked(PANED[0], ps.progress("t", per="link", slack=1), rows)
    job = WithoutSpark(query.plan, 1)
    run_in_cuts(job, query, {"s": [(0, 1), (1, 3)]}, 1, set())
    assert_reference(query, job)
    assert job.tally.late == 1


@pytest.mark.parametrize(
    "call", ["count(*)", "sum(x)", "var_pop(x)", "min(k)", "max(x)", "last(x)"]
)
def test_a_task_may_read_only_what_is_in_no_window(call: str) -> None:
    select = f"SELECT /*+ paned */ {call} AS z [RANGE 2, SLIDE 5, WA t] FROM s"
    query = asked(select, ps.progress("t", delay=4), [("u", "a", 1, 0), ("u", "b", 2, 4)])
    job = WithoutSpark(query.plan, 2)
    run_in_cuts(job, query, {"s": [(0, 1), (1, 2)]}, 1, set())
    assert job.makes_panes
    assert_reference(query, job)


def test_tuples_are_folded_before_they_are_sent() -> None:
    for select in PANED:
        assert WithoutSpark(asked(select, ps.progress("t", delay=4), []).plan, 2).makes_panes
        side = asked(f"{select} LATE SIDE", ps.progress("t", delay=4), [])
        assert not WithoutSpark(side.plan, 2).makes_panes


# --- several tasks -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(
    data=st.data(),
    rule=st.sampled_from(RULES),
    # rows of one rank come in the order of arrival, which several tasks do not share
    select=st.sampled_from([*PANED, *OTHERS]).filter(lambda sql: "ROWS, WA" not in sql),
    late=st.sampled_from(["", " LATE SIDE"]),
    rows=ROWS,
    buckets=st.integers(1, 3),
    tasks=st.integers(2, 3),
)
def test_sub_sources_in_tasks_of_their_own(
    data: st.DataObject,
    rule: dict[str, Any],
    select: str,
    late: str,
    rows: list[Row],
    buckets: int,
    tasks: int,
) -> None:
    """Each sub-source is read in order by one task, and known before the tasks part ways."""
    assume(" r)" not in select)
    names = ["u", "v", "w", None]
    known = [(name, "a", 1, -20) for name in names]
    query = asked(select + late, ps.progress("t", per="link", **rule), [*known, *rows])
    batch = rows_of(query.plan)["s"]
    job = WithoutSpark(query.plan, buckets)
    job.run({"s": [Given([Chunk(batch.slice(0, len(known)))])]})
    task_of = [names.index(row[0]) % tasks for row in rows]
    for begin, end in data.draw(cuts(len(rows)), label="s"):
        split = []
        for task in range(tasks):
            mine = [len(known) + row for row in range(begin, end) if task_of[row] == task]
            split.append(Given([Chunk(batch.take(pa.array(mine, pa.int64())))]))
        job.run({"s": split})
        if data.draw(st.booleans(), label="restart"):
            job.restart()
    job.run({"s": [Given([], ends=True)]})
    assert_reference(query, job)
