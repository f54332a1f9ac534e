"""Joins in tasks and buckets, against the reference engine: whatever the kind of join, its keys,
the cut into micro-batches, the number of buckets and the restarts are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.kernel.operator import Progress
from penstock.model.punctuation import JointPunctuation
from penstock.plan.explain import explain_physical
from penstock.spark.sources.stream_inputs import streams_of
from penstock.spark.stateful.registers import slowest
from tests.planning import on_spark
from tests.reference.helpers import Row, tuples
from tests.spark.test_every_cut import Cuts, assert_reference, cuts, run_in_cuts
from tests.spark.without_spark import Given, WithoutSpark, rows_of, send_after

SCHEMA = "k STRING, f DOUBLE, x INT, t BIGINT"
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([0.0, -0.0, 1.5, float("nan"), None]),
        st.sampled_from([None, 0, 1, 2, 7]),
        st.one_of(st.integers(-5, 40), st.integers(0, 25)),
    ),
    max_size=20,
)
RULES: list[dict[str, Any]] = [
    {"ordered": True},
    {"delay": 4},
    {"delay": 15},
    {"slack": 2},
    {"delay": 2, "per": "k"},
    {"delay": 4, "punctuated": ("x = 7", "t - 2"), "punctuated_for": ["k"]},
]
KEYED = [
    "SELECT s.x AS x, r.x AS y, s.t AS t, r.t AS u FROM s [RANGE 5], r [RANGE 3] WHERE s.k = r.k",
    "SELECT s.k AS k, r.t AS t FROM s, r WHERE s.k = r.k AND r.t BETWEEN s.t - 2 AND s.t + 7",
    "SELECT s.f AS f, r.f AS g FROM s [RANGE 5], r [RANGE 5] WHERE s.f = r.f AND s.x < r.x",
    "SELECT s.x AS x, r.x AS y FROM s [RANGE TUMBLING 8], r [RANGE TUMBLING 8]"
    " WHERE s.k = r.k AND s.f = r.f",
    "SELECT a.x AS x, b.x AS y FROM s AS a [RANGE 4], s AS b [RANGE 4]"
    " WHERE a.k = b.k AND a.x < b.x",
]
BY_TIME = [
    "SELECT s.x AS x, r.x AS y FROM s, r WHERE r.t BETWEEN s.t - 1 AND s.t + 2",
    "SELECT s.x AS x, r.x AS y FROM s, r WHERE s.t = r.t AND s.x <> r.x",
    "SELECT s.x AS x, r.x AS y FROM s [RANGE 5], r [RANGE 0] WHERE s.x < r.x",
    "SELECT s.t AS x, r.t AS y FROM s, r WHERE r.t BETWEEN s.t + 30 AND s.t + 33",
    "SELECT s.x AS x, r.x AS y FROM s [RANGE TUMBLING 8], r [RANGE TUMBLING 8] WHERE s.x <= r.x",
    "SELECT a.x AS x, b.x AS y FROM s AS a, s AS b WHERE b.t > a.t AND b.t < a.t + 5",
]
KINDS = ["LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"]
OF_KINDS = [
    f"SELECT {'s.x AS x' if kind[:4] in ('SEMI', 'ANTI') else 's.x AS x, r.x AS y'} FROM {joined}"
    for kind in KINDS
    for joined in (
        f"s [RANGE 5] {kind} r [RANGE 3] ON s.k = r.k",
        f"s {kind} r ON s.f = r.f AND s.x < r.x AND r.t BETWEEN s.t - 2 AND s.t + 7",
        f"s {kind} r ON s.x < r.x AND r.t BETWEEN s.t - 1 AND s.t + 2",
        f"s [RANGE TUMBLING 8] {kind} r [RANGE TUMBLING 8] ON s.x <= r.x",
    )
]
SEVERAL = [
    "SELECT s.x AS x, r.x AS y, q.x AS z FROM s [RANGE 5], r [RANGE 3], s AS q [RANGE 4]"
    " WHERE s.k = r.k AND r.f = q.f",
    "SELECT s.x AS x, r.x AS y, q.x AS z FROM s, r, s AS q WHERE r.t BETWEEN s.t - 1 AND s.t + 2"
    " AND q.t BETWEEN r.t AND r.t + 1",
    "SELECT s.x AS x FROM s WHERE NOT EXISTS"
    " (SELECT 1 AS one FROM r WHERE r.k = s.k AND r.t BETWEEN s.t AND s.t + 5)",
]
IN_A_ROW = [
    "SELECT s.k AS k, count(*) AS n, sum(r.x) AS z [RANGE 10, SLIDE 5, WA s.t]"
    " FROM s [RANGE 5], r [RANGE 3] WHERE s.k = r.k GROUP BY s.k",
    "SELECT q.n AS n, r.x AS x FROM"
    " (SELECT k, count(*) AS n [RANGE 6, SLIDE 3, WA t] FROM s GROUP BY k) AS q [RANGE 4, WA"
    " window_end], r [RANGE 4] WHERE q.k = r.k",
    "SELECT count(*) AS n [RANGE 8, SLIDE 8, WA v] FROM"
    " (SELECT q.n AS n, r.t AS v FROM"
    "   (SELECT s.k AS k, count(*) AS n [RANGE 6, SLIDE 3, WA s.t] FROM s [RANGE 5], r [RANGE 3]"
    "    WHERE s.k = r.k GROUP BY s.k) AS q [RANGE 4, WA window_end], r [RANGE 4]"
    "  WHERE q.k = r.k) AS j",
    "SELECT count(*) AS n [RANGE 8, SLIDE 8, WA s.t] FROM s, r"
    " WHERE r.t BETWEEN s.t - 1 AND s.t + 2",
    # complete by what is promised about both times together
    "SELECT s.t AS a, r.t AS b, count(*) AS n FROM s [RANGE 5], r [RANGE 9] WHERE s.k = r.k"
    " GROUP BY s.t, r.t",
]


def asked(sql: str, rule: dict[str, Any], s: list[Row], r: list[Row]) -> ps.Query:
    db = ps.connect("reference")
    db.stream("s", s, schema=SCHEMA, progress=ps.progress("t", **rule))
    db.stream("r", r, schema=SCHEMA, progress=ps.progress("t", delay=3))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def run(query: ps.Query, planned: dict[str, Cuts], buckets: int, restarts: set[int]) -> None:
    job = WithoutSpark(query.plan, buckets)
    run_in_cuts(job, query, planned, 100, restarts)
    assert_reference(query, job)


@settings(max_examples=100)
@given(
    data=st.data(),
    rule=st.sampled_from(RULES),
    select=st.sampled_from([*KEYED, *BY_TIME, *OF_KINDS, *SEVERAL, *IN_A_ROW]),
    late=st.sampled_from(["", " LATE SIDE", " LATE AMEND", " LATE AMEND FOR 5"]),
    s=ROWS,
    r=ROWS,
    buckets=st.integers(1, 4),
    flush=st.sampled_from([1, 3, 1000]),
    restarts=st.sets(st.integers(1, 7)),
)
def test_every_cut(
    data: st.DataObject,
    rule: dict[str, Any],
    select: str,
    late: str,
    s: list[Row],
    r: list[Row],
    buckets: int,
    flush: int,
    restarts: set[int],
) -> None:
    query = asked(select + late, rule, s, r)
    planned = {"s": data.draw(cuts(len(s)), label="s")}
    if "r" in streams_of(query.plan):
        planned["r"] = data.draw(cuts(len(r)), label="r")
    with pytest.MonkeyPatch.context() as patch:
        send_after(patch, flush)
        run(query, planned, buckets, restarts)


HINTS = ["OA", "OPOB", "OPIB", "SYNC_FILTER", "FILTER_ORDER", "ADAPTIVE_JOIN"]


@settings(max_examples=80)
@given(
    data=st.data(),
    rule=st.sampled_from(RULES),
    select=st.sampled_from([*KEYED, *BY_TIME, IN_A_ROW[0], IN_A_ROW[-1]]),
    hint=st.sampled_from(HINTS),
    late=st.sampled_from(["", " LATE SIDE"]),
    s=ROWS,
    r=ROWS,
    buckets=st.integers(1, 4),
    restarts=st.sets(st.integers(1, 7)),
)
def test_hinted_joins_in_every_cut(
    data: st.DataObject,
    rule: dict[str, Any],
    select: str,
    hint: str,
    late: str,
    s: list[Row],
    r: list[Row],
    buckets: int,
    restarts: set[int],
) -> None:
    query = asked(select.replace("SELECT", f"SELECT /*+ {hint} */", 1) + late, rule, s, r)
    planned = {"s": data.draw(cuts(len(s)), label="s")}
    if "r" in streams_of(query.plan):
        planned["r"] = data.draw(cuts(len(r)), label="r")
    run(query, planned, buckets, restarts)


@pytest.mark.parametrize(
    ("hint", "runs"),
    [
        ("", "OaJoin"),
        ("/*+ OA */", "OaJoin"),
        ("/*+ OPOB */", "OpobJoin"),
        ("/*+ OPIB */", "OpibJoin"),
        ("/*+ SYNC_FILTER */", "SyncFilter"),
        ("/*+ FILTER_ORDER */", "FilterOrder"),
        ("/*+ ADAPTIVE_JOIN */", "AdaptiveJoin"),
    ],
)
def test_what_runs_in_the_buckets(hint: str, runs: str) -> None:
    select = KEYED[0].replace("SELECT", f"SELECT {hint}", 1)
    shown = explain_physical(on_spark(asked(select + " EMIT IN ORDER", RULES[0], [], []).plan))
    assert f"└─ {runs}: " in shown
    assert "Order" in shown.splitlines()[1]
    assert (", in each bucket" in shown) == (runs != "OaJoin")


def test_hints_that_a_join_cannot_follow() -> None:
    select = "SELECT /*+ OPIB */ s.x AS x FROM s [RANGE 5] LEFT JOIN r [RANGE 3] ON s.k = r.k"
    with pytest.raises(
        ps.EngineError, match="OPIB joins two streams at a time, and gives neither tuples"
    ):
        on_spark(asked(select, RULES[0], [], []).plan)


def test_what_buckets_promise_together_about_pairs() -> None:
    """No tuple that one of them may still give is below both bounds."""
    told = [
        Progress({"a": 3}, joint=(JointPunctuation(("a", "b"), (7, 9)),)),
        Progress({"a": 5}, joint=(JointPunctuation(("b", "a"), (4, 8)),)),
    ]
    assert slowest(told).joint == (JointPunctuation(("a", "b"), (7, 4)),)
    assert slowest([*told, Progress(ended=True)]).joint == (JointPunctuation(("a", "b"), (7, 4)),)
    assert slowest([*told, Progress({"a": 9, "b": 9})]).joint == ()


def test_groups_leave_by_what_is_promised_about_both_times() -> None:
    """Both streams are at 10, so a pair may follow that is at 5 of s, or one that is at 1 of r; but
    none that is below 10 of both."""
    s, r = [("a", 0.0, 1, 7), ("b", 0.0, 1, 10)], [("a", 0.0, 2, 8), ("c", 0.0, 2, 13)]
    query = asked(IN_A_ROW[-1], {"ordered": True}, s, r)
    job = WithoutSpark(query.plan, 2)
    batches = rows_of(query.plan)
    job.run({name: [Given([Chunk(batch)])] for name, batch in batches.items()})
    assert tuples(job.received.table(query.plan)) == [(7, 8, 1)]


def test_pairs_are_folded_before_they_are_sent_on() -> None:
    """There may be many more of them than tuples, and they are never late."""
    paned = IN_A_ROW[0].replace("SELECT", "SELECT /*+ paned */")
    for late in ("", " LATE SIDE"):
        query = asked(paned + late, {"delay": 4}, [], [])
        assert WithoutSpark(query.plan, 2).makes_panes
    median = paned.replace("count(*) AS n", "median(r.x) AS m")
    assert not WithoutSpark(asked(median, {"delay": 4}, [], []).plan, 2).makes_panes
