"""Random streams to be joined, and plans of all kinds of joins over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import penstock as ps
from penstock.model.clock import ManualClock
from penstock.optimizer.rewrite import with_inputs
from penstock.plan.nodes.join import Join, JoinKind
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.reference.engine import answer as definition
from tests.local.helpers import recut
from tests.local.interleaved import plainly, run_interleaved
from tests.reference.helpers import Stream, bag, database, tuples

SCHEMA = "k STRING, x DOUBLE, n INT, t INT"
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
        st.integers(0, 3),
        st.integers(-20, 20) | st.sampled_from([-(2**31), 2**31 - 1, 100, 103]),
    ),
    max_size=16,
)
FROM = (
    "l [RANGE 5, WA t], r [RANGE 2, WA t]",
    "l [RANGE 0, WA t], r [RANGE 0, WA t]",
    "l, r [RANGE TUMBLING 4, WA t]",
    "l JOIN r ON r.t BETWEEN l.t - 3 AND l.t + 1",
    "l JOIN r ON r.t > l.t + 2 AND r.t <= l.t + 6",
)
WHERE = (
    "",
    "WHERE l.k = r.k",
    "WHERE l.k = r.k AND r.n = l.n",
    "WHERE l.x = r.x",
    "WHERE l.k = r.k AND l.x < r.n",
    "WHERE l.n < r.n OR l.k IS NULL",
    "WHERE l.k = r.k AND l.n = 1 AND r.n < 3",
)
PROMISES: list[dict[str, Any]] = [
    {"ordered": True},
    {"delay": 4},
    {"delay": 60},
    {"slack": 3},
    {"delay": 3, "per": "n"},
    {"punctuated": ("k = 'b'", "t")},
    {"punctuated": ("k = 'b'", "t"), "punctuated_for": ["n"], "delay": 9},
]
PROMISE = st.sampled_from(PROMISES).map(lambda given: ps.progress("t", **given))
STREAM = st.builds(Stream, st.just(SCHEMA), ROWS, PROMISE)
# of which several can be joined: all combinations of their tuples are tried
FEW_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
        st.integers(0, 2),
        st.integers(-9, 9) | st.sampled_from([-(2**31), 2**31 - 1]),
    ),
    max_size=7,
)
SHORT = st.builds(Stream, st.just(SCHEMA), FEW_ROWS, PROMISE)
THREE = (
    "a [RANGE 5, WA t], b [RANGE 2, WA t], c [RANGE 0, WA t]",
    "a, b [RANGE TUMBLING 4, WA t], c",
    "a JOIN b ON b.t BETWEEN a.t AND a.t + 2 JOIN c ON c.t = b.t + 1",
    "a, b JOIN c ON c.t BETWEEN a.t - 1 AND a.t + 3 AND b.t - 2 <= c.t AND c.t < b.t + 2",
)
SELECT_OF_THREE = (
    "SELECT {columns} FROM {source} {where}",
    "SELECT count(*) AS c, sum(b.n) AS s [RANGE 6, SLIDE 3, WA {side}.t] FROM {source} {where}",
    "SELECT {side}.t, b.k, b.t, count(*) AS c FROM {source} {where} GROUP BY {side}.t, b.k, b.t",
)
CUT = st.sampled_from((1, 3, 7, None))
RESTART = st.sampled_from([None, 1, 3])
PICKS = st.lists(st.integers(0, 2), max_size=12)


def all_columns(streams: str) -> str:
    return ", ".join(f"{name}.{column}" for name in streams for column in "kxnt")


def of_kind(plan: QueryPlan, kind: JoinKind) -> QueryPlan:
    """The same with another kind of join, wherever it has one."""

    def change(node: Node) -> Node:
        node = with_inputs(node, change)
        return replace(node, kind=kind) if isinstance(node, Join) else node

    return with_inputs(plan, change)


def planned(sql: str, kind: JoinKind, cut: int | None, **streams: Stream) -> QueryPlan:
    db = database(**streams)
    recut(db, cut)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return of_kind(query.plan, kind)


def check(
    sql: str,
    kind: JoinKind = JoinKind.INNER,
    cut: int | None = None,
    restart: int | None = None,
    picks: Sequence[int] = (),
    **streams: Stream,
) -> None:
    """The local engine gives the rows and the late tuples of the reference, in whatever order its
    sources are read."""
    reference = definition(planned(sql, kind, None, **streams), ManualClock())
    found = run_interleaved(planned(sql, kind, cut, **streams), picks, restart)
    assert bag(tuples(found.rows)) == bag(tuples(reference.table))
    assert found.late == plainly([reference.late])
