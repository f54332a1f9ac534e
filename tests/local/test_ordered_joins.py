"""Joins whose results leave in order give the rows and late tuples of the reference, in order and
within what they promise, whatever is cut, ended and gone on with, by whichever of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.kernel.build import operator_for
from penstock.kernel.joins import ordered_joins
from penstock.kernel.operator import Operator, Progress
from penstock.local.graph import query_graph
from penstock.local.run import LocalRun
from penstock.model.clock import Clock, ManualClock
from penstock.optimizer.rewrite import with_inputs
from penstock.plan.algorithms import JoinAlgorithm
from penstock.plan.explain import explain_physical
from penstock.plan.nodes.join import Join
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalNode, PhysicalPlan
from penstock.runs.answer import Outlet
from tests.local.helpers import recut
from tests.local.joining import CUT, FROM, PROMISE, SCHEMA, WHERE
from tests.local.promising import Watched
from tests.local.side_by_side import TURNS, Planning, run_interleaved, ticks_of
from tests.planning import in_process
from tests.reference.helpers import Stream, bag, database, tuples

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
        st.integers(0, 3),
        st.integers(-10, 15) | st.sampled_from([-(2**31), 2**31 - 1, 100, 103]),
    ),
    max_size=14,
)
# Streams that move on, now and then a step back, so that many tuples have partners.
STEPS = st.lists(st.tuples(st.sampled_from("aab"), st.integers(-2, 4)), min_size=4, max_size=20)
FLOWING = STEPS.map(
    lambda steps: [
        (k, 1.5, n % 4, sum(step for _, step in steps[: n + 1])) for n, (k, _) in enumerate(steps)
    ]
)
DELAYS = st.sampled_from([0, 2, 4]).map(lambda delay: ps.progress("t", delay=delay))
STREAM = st.builds(Stream, st.just(SCHEMA), ROWS, PROMISE)
STREAM |= st.builds(Stream, st.just(SCHEMA), FLOWING, DELAYS)
STREAM |= st.builds(Stream, st.just(SCHEMA), FLOWING, DELAYS)
SKEW = st.sampled_from([0, 0, 0, 6, -6])  # ticks that the right stream is ahead of the left one

# By what rows are sorted, and which joins have them in that order by themselves.
BY_ONE = {None, JoinAlgorithm.OPOB, JoinAlgorithm.OPIB}
BY_BOTH = {
    None,
    JoinAlgorithm.SYNC_FILTER,
    JoinAlgorithm.FILTER_ORDER,
    JoinAlgorithm.ADAPTIVE_JOIN,
}
ORDERS = [
    ("l.t", BY_ONE),
    ("r.t", BY_ONE),
    ("l.t * 2 + 1", BY_ONE),
    ("greatest(r.t, l.t)", BY_BOTH),
    ("greatest(l.t, r.t) - 3", BY_BOTH),
    ("least(l.t, r.t)", set[JoinAlgorithm | None]()),
]
HINTS = st.sampled_from([None, *JoinAlgorithm])
MOVES = st.lists(HINTS, min_size=1, max_size=4)
LOADS = st.lists(st.sampled_from([0.0, 0.9]), min_size=1, max_size=6)


def hinted(query: QueryPlan, hint: JoinAlgorithm | None) -> QueryPlan:
    def change(node: Node) -> Node:
        node = with_inputs(node, change)
        return replace(node, hint=hint) if isinstance(node, Join) else node

    return with_inputs(query, change)


def with_hint(hint: JoinAlgorithm | None) -> Planning:
    def planning(query: QueryPlan) -> PhysicalPlan:
        return in_process(hinted(query, hint))

    return planning


@contextmanager
def watching(loads: list[float]) -> Iterator[None]:
    """Joins are watched, and adaptive ones are told how busy they are."""
    promised: dict[tuple[str, ...], list[Progress]] = {}  # of every join, by its times
    told = cycle(loads)

    def watched(node: PhysicalNode, clock: Clock) -> Operator:
        made = operator_for(node, clock)
        if not isinstance(node.logical, Join):
            return made
        types = {each.field.qualified: each.field.type for each in node.logical.progress}
        return Watched(made, types, promised.setdefault(tuple(types), []))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_graph, "operator_for", watched)
        patch.setattr(ordered_joins.JoinLoad, "measure", lambda *_: next(told))
        patch.setattr(ordered_joins, "_PATIENCE", 0)
        yield


def planned(by: str, source: str, where: str, cut: int | None, **streams: Stream) -> ps.Query:
    db = database(**streams)
    recut(db, cut)
    query = db.sql(
        f"SELECT {by} AS o, l.k, l.x, l.n, l.t AS lt, r.k AS rk, r.x AS rx, r.n AS rn, r.t AS rt"
        f" FROM {source} {where} LATE SIDE EMIT IN ORDER"
    )
    assert isinstance(query, ps.Query)
    return query


def operators(plan: PhysicalPlan) -> list[str]:
    return [node.operator.value for node in plan.root.walk()]


@settings(deadline=None, max_examples=150)
@given(
    left=STREAM,
    right=STREAM,
    skew=SKEW,
    order=st.sampled_from(ORDERS),
    source=st.sampled_from(FROM),
    where=st.sampled_from(WHERE),
    cut=CUT,
    turns=TURNS,
    every=st.sampled_from([None, 2, 3, 5]),
    hints=MOVES,
    loads=LOADS,
)
def test_rows_of_the_reference_in_order(
    left: Stream,
    right: Stream,
    skew: int,
    order: tuple[str, set[Any]],
    source: str,
    where: str,
    cut: int | None,
    turns: list[int],
    every: int | None,
    hints: list[JoinAlgorithm | None],
    loads: list[float],
) -> None:
    """With restarts, the next run goes on with the next algorithm."""
    moved = [(*row[:3], max(-(2**31), min(row[3] + skew, 2**31 - 1))) for row in right.rows]
    query = planned(order[0], source, where, cut, l=left, r=right._replace(rows=moved))
    expected = query.collect()
    with watching(loads):
        found = run_interleaved(query.plan, turns, every, [with_hint(hint) for hint in hints])
    assert bag(tuples(found.rows)) == bag(tuples(expected))
    assert bag(tuples(found.late) if found.late is not None else []) == bag(tuples(query.late))
    ticks = ticks_of(found.batches, "o")
    assert ticks == sorted(ticks)


@pytest.mark.parametrize(("by", "joins"), ORDERS)
@pytest.mark.parametrize("hint", [None, *JoinAlgorithm])
def test_rows_are_put_in_order_at_the_end_only_where_they_have_to(
    by: str, joins: set[Any], hint: JoinAlgorithm | None
) -> None:
    streams = {name: Stream(SCHEMA, [], ps.progress("t", delay=2)) for name in "lr"}
    query = planned(by, FROM[0], "", None, **streams)
    found = operators(with_hint(hint)(query.plan))
    assert ("Order" in found) is (hint not in joins)


@settings(deadline=None, max_examples=60)
@given(
    by=st.sampled_from([by for by, _ in ORDERS]),
    hint=HINTS,
    left=FLOWING,
    right=FLOWING,
    source=st.sampled_from(FROM),
)
def test_a_final_run_gives_out_all_that_waits(
    by: str, hint: JoinAlgorithm | None, left: list[Any], right: list[Any], source: str
) -> None:
    """By a promise, so that somebody can go on later."""
    promise = ps.progress("t", delay=30)
    streams = {"l": Stream(SCHEMA, left, promise), "r": Stream(SCHEMA, right, promise)}
    query = planned(by, source, "", 7, **streams)
    rows = Collected()
    plan = with_hint(hint)(query.plan)
    run = LocalRun([plan], [Outlet(query.plan, rows)], ManualClock(), resumable=True)
    for scan in run.scans:
        for chunk in scan.chunks():
            run.feed(scan, chunk)
    run.close_all()
    assert "ended" not in run.closed.values()
    assert bag(tuples(rows.table)) == bag(tuples(query.collect()))


def test_explain_and_status_say_how_results_leave() -> None:
    streams = {name: Stream(SCHEMA, [], ps.progress("t", delay=2)) for name in "lr"}
    for by, hint, lines in (
        ("l.t + 1", None, ["OpibJoin: Join", "order: sorted by l.t"]),
        ("r.t", JoinAlgorithm.OPOB, ["OpobJoin: Join", "order: sorted by r.t"]),
        ("greatest(r.t, l.t)", None, ["AdaptiveJoin: Join", "order: sorted by greatest(l.t, r.t)"]),
        ("l.t", JoinAlgorithm.SYNC_FILTER, ["Order", "SyncFilter: Join"]),
    ):
        plan = with_hint(hint)(planned(by, FROM[0], "", None, **streams).plan)
        text = explain_physical(plan)
        assert all(line in text for line in lines), text
        run = LocalRun([plan], [Outlet(plan.query, Collected())], ManualClock())
        (join,) = [each for each in run.operators(run.outlets[0]) if each.held.counters]
        assert "results waiting for their turn" in join.held.counters


def test_a_hint_that_cannot_be_followed_is_refused() -> None:
    streams = {name: Stream(SCHEMA, [], ps.progress("t", delay=2)) for name in "lr"}
    query = database(**streams).sql(f"SELECT l.t, r.t FROM {FROM[0]} LATE AMEND")
    assert isinstance(query, ps.Query)
    with pytest.raises(ps.PenstockError, match="OPIB joins two streams"):
        with_hint(JoinAlgorithm.OPIB)(query.plan)
    assert operators(with_hint(JoinAlgorithm.OA)(query.plan))[1] == "OaJoin"
