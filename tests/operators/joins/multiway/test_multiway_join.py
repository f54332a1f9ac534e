"""Joins of several inputs as trees of operators, whatever they are put together of: the answer is
that of all combinations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.engine.interleaved as interleaved
from penstock.model.clock import ManualClock
from penstock.optimizer.dataflow.arrangement import arranged
from penstock.optimizer.dataflow.join_tree import Joined, JoinTree, Leaf, orders_of
from penstock.optimizer.physical.lower import lower
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.physical.plan import PhysicalPlan
from penstock.plan.joins import Join, JoinKind
from penstock.plan.node import Node
from penstock.plan.query import QueryPlan
from penstock.reference.engine import answer as definition
from tests.engine.interleaved import plainly, run_interleaved
from tests.engine.joining import CUT, PROMISE, RESTART, planned
from tests.reference.helpers import Stream, bag, tuples

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
        st.integers(0, 2),
        st.integers(-9, 9) | st.sampled_from([-(2**31), 2**31 - 1]),
    ),
    max_size=7,
)
STREAM = st.builds(Stream, st.just("k STRING, x DOUBLE, n INT, t INT"), ROWS, PROMISE)
THREE = (
    "a [RANGE 5, WA t], b [RANGE 2, WA t], c [RANGE 0, WA t]",
    "a, b [RANGE TUMBLING 4, WA t], c",
    "a JOIN b ON b.t BETWEEN a.t AND a.t + 2 JOIN c ON c.t = b.t + 1",
    "a, b JOIN c ON c.t BETWEEN a.t - 1 AND a.t + 3 AND b.t - 2 <= c.t AND c.t < b.t + 2",
)
WHERE = (
    "",
    "WHERE a.k = b.k AND b.k = c.k",
    "WHERE a.k = c.k AND b.n = c.n",
    "WHERE a.x = b.x AND c.x = a.x AND a.n <= c.n",
    "WHERE a.k = b.k AND a.n = b.n AND b.n = c.n AND a.n < b.n + c.n",
    "WHERE a.n = b.n AND b.k = c.k AND a.n = c.n AND a.n + b.n = c.n",
)
FOUR = "a [RANGE 6, WA t], b [RANGE 3, WA t], c [RANGE 4, WA t], d [RANGE 2, WA t]"
WHERE_FOUR = (
    "WHERE a.k = b.k AND b.k = c.k AND c.k = d.k",
    "WHERE a.k = b.k AND b.n = c.n AND c.x = d.x",
    "WHERE a.n = d.n AND b.n = d.n AND c.n < d.n",
)
SELECT = (
    "SELECT {columns} FROM {source} {where}",
    "SELECT count(*) AS c, sum(b.n) AS s [RANGE 6, SLIDE 3, WA {side}.t] FROM {source} {where}",
    "SELECT {side}.t, b.t, count(*) AS c FROM {source} {where} GROUP BY {side}.t, b.t",
)
PICKS = st.lists(st.integers(0, 3), max_size=12)


@st.composite
def trees(draw: st.DrawFn, numbers: Sequence[int]) -> JoinTree:
    """Any tree over some inputs, with any order of probes."""
    if len(numbers) == 1:
        return Leaf(numbers[0])
    mixed = draw(st.permutations(numbers))
    cuts = draw(st.sets(st.integers(1, len(mixed) - 1), min_size=1))
    ends = [0, *sorted(cuts), len(mixed)]
    parts = [draw(trees(mixed[a:b])) for a, b in pairwise(ends)]
    orders = [list(orders_of(len(parts), own)) for own in range(len(parts))]
    return Joined(tuple(parts), tuple(draw(st.sampled_from(each)) for each in orders))


def put_together(query: QueryPlan, tree: Joined) -> PhysicalPlan:
    def change(node: Node) -> Node:
        node = with_inputs(node, change)
        return arranged(node, tree) if isinstance(node, Join) else node

    return lower(with_inputs(query, change), Settings())


def check(
    sql: str,
    tree: JoinTree,
    cut: int | None,
    restart: int | None,
    picks: list[int],
    **streams: Stream,
) -> None:
    assert isinstance(tree, Joined)
    reference = definition(planned(sql, JoinKind.INNER, None, **streams), ManualClock())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interleaved, "in_process", lambda query: put_together(query, tree))
        found = run_interleaved(planned(sql, JoinKind.INNER, cut, **streams), picks, restart)
    assert bag(tuples(found.rows)) == bag(tuples(reference.table))
    assert found.late == plainly([reference.late])


def all_columns(streams: str) -> str:
    return ", ".join(f"{name}.{column}" for name in streams for column in "kxnt")


@settings(deadline=None, max_examples=150)
@given(
    a=STREAM,
    b=STREAM,
    c=STREAM,
    tree=trees(range(3)),
    select=st.sampled_from(SELECT),
    source=st.sampled_from(THREE),
    where=st.sampled_from(WHERE),
    side=st.sampled_from("abc"),
    late=st.sampled_from(["LATE SIDE", "LATE AMEND FOR 3"]),
    cut=CUT,
    restart=RESTART,
    picks=PICKS,
)
def test_three_inputs(
    a: Stream,
    b: Stream,
    c: Stream,
    tree: JoinTree,
    select: str,
    source: str,
    where: str,
    side: str,
    late: str,
    cut: int | None,
    restart: int | None,
    picks: list[int],
) -> None:
    named = select.format(columns=all_columns("abc"), source=source, where=where, side=side)
    check(f"{named} {late}", tree, cut, restart, picks, a=a, b=b, c=c)


@settings(deadline=None, max_examples=80)
@given(
    several=st.tuples(STREAM, STREAM, STREAM, STREAM),
    tree=trees(range(4)),
    where=st.sampled_from(WHERE_FOUR),
    cut=CUT,
    restart=RESTART,
    picks=PICKS,
)
def test_four_inputs(
    several: tuple[Stream, ...],
    tree: JoinTree,
    where: str,
    cut: int | None,
    restart: int | None,
    picks: list[int],
) -> None:
    sql = f"SELECT {all_columns('abcd')} FROM {FOUR} {where}"
    streams = dict(zip("abcd", several, strict=True))
    check(sql, tree, cut, restart, picks, **streams)
