"""Joins of several inputs as trees of operators, whatever they are put together of: the answer is
that of all combinations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
import tests.local.interleaved as interleaved
from penstock.kernel.batch import Batch
from penstock.kernel.joins import pairing
from penstock.kernel.joins.multiway_join import MultiwayJoin
from penstock.kernel.operator import Progress
from penstock.kernel.state import MemoryStore
from penstock.model.clock import ManualClock
from penstock.optimizer.join_order import put_together
from penstock.optimizer.lowering import lower
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.join_properties import arranged
from penstock.plan.join_trees import Joined, JoinInput, JoinTree, flat, orders_of
from penstock.plan.nodes.join import Join, JoinKind
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from penstock.reference.engine import answer as definition
from tests.kernel.joins.interleaved import Given
from tests.kernel.joins.interleaved import check as check_signed
from tests.local.interleaved import plainly, run_interleaved
from tests.local.joining import (
    CUT,
    RESTART,
    SELECT_OF_THREE,
    SHORT,
    THREE,
    all_columns,
    planned,
)
from tests.reference.helpers import Stream, bag, tuples

WHERE = (
    "",
    "WHERE a.k = b.k AND b.k = c.k",
    "WHERE a.k = c.k AND b.n = c.n",
    "WHERE a.x = b.x AND c.x = a.x AND a.n <= c.n",
    "WHERE a.k = b.k AND a.n = b.n AND b.n = c.n AND a.n < b.n + c.n",
    "WHERE a.n = b.n AND b.k = c.k AND a.n = c.n AND a.n + b.n = c.n",
    "WHERE a.n = b.n AND a.t = b.t AND b.n = c.n AND b.t = c.t",
)
FOUR = "a [RANGE 6, WA t], b [RANGE 3, WA t], c [RANGE 4, WA t], d [RANGE 2, WA t]"
WHERE_FOUR = (
    "WHERE a.k = b.k AND b.k = c.k AND c.k = d.k",
    "WHERE a.k = b.k AND b.n = c.n AND c.x = d.x",
    "WHERE a.n = d.n AND b.n = d.n AND c.n < d.n",
)
PICKS = st.lists(st.integers(0, 3), max_size=12)


@st.composite
def trees(draw: st.DrawFn, numbers: Sequence[int]) -> JoinTree:
    """Any tree over some inputs, with any order of probes."""
    if len(numbers) == 1:
        return JoinInput(numbers[0])
    mixed = draw(st.permutations(numbers))
    cuts = draw(st.sets(st.integers(1, len(mixed) - 1), min_size=1))
    ends = [0, *sorted(cuts), len(mixed)]
    parts = [draw(trees(mixed[a:b])) for a, b in pairwise(ends)]
    orders = [list(orders_of(len(parts), own)) for own in range(len(parts))]
    return Joined(tuple(parts), tuple(draw(st.sampled_from(each)) for each in orders))


def planned_as(query: QueryPlan, tree: Joined) -> PhysicalPlan:
    def change(node: Node) -> Node:
        node = with_inputs(node, change)
        return put_together(node, tree) if isinstance(node, Join) else node

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
        patch.setattr(interleaved, "in_process", lambda query: planned_as(query, tree))
        patch.setattr(pairing, "_HASHED", 1)  # tuples of other keys are found as well
        found = run_interleaved(planned(sql, JoinKind.INNER, cut, **streams), picks, restart)
    assert bag(tuples(found.rows)) == bag(tuples(reference.table))
    assert found.late == plainly([reference.late])


@settings(deadline=None, max_examples=60)
@given(
    a=SHORT,
    b=SHORT,
    c=SHORT,
    tree=trees(range(3)),
    select=st.sampled_from(SELECT_OF_THREE),
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


@settings(deadline=None, max_examples=30)
@given(
    several=st.tuples(SHORT, SHORT, SHORT, SHORT),
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


# --- signed items --------------------------------------------------------------------------------

ITEMS = pa.schema([("k", pa.string()), ("v", pa.int32()), ("t", pa.int32())])
SIGNED_ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(-4, 9)), max_size=7
)
PROMISED = st.sampled_from([{"ordered": True}, {"delay": 3}, {"delay": 40}])
DIFFERENCE = "(SELECT k, v, changed_at FROM a [RANGE 5] EXCEPT ON (k) b [RANGE 3])"
SIGNED = (
    f"SELECT d.v, c.t, e.v FROM {DIFFERENCE} AS d [RANGE 4], c [RANGE 3], b AS e [RANGE 5]"
    " WHERE d.k = c.k AND c.v = e.v",
    "SELECT d.k, count(*) AS n, sum(c.v) AS s [RANGE 6, SLIDE 2, WA c.t]"
    f" FROM {DIFFERENCE} AS d [RANGE 4], c [RANGE 3], b AS e [RANGE 5]"
    " WHERE d.k = c.k AND c.k = e.k GROUP BY d.k",
)


@settings(deadline=None, max_examples=12)
@given(
    rows=st.tuples(SIGNED_ROWS, SIGNED_ROWS, SIGNED_ROWS),
    promise=PROMISED,
    sql=st.sampled_from(SIGNED),
    turns=st.lists(st.integers(0, 2), max_size=8),
    every=RESTART,
)
def test_items_that_may_be_taken_back(
    rows: tuple[list[tuple[str, int, int]], ...],
    promise: dict[str, object],
    sql: str,
    turns: list[int],
    every: int | None,
) -> None:
    streams = {name: Given(ITEMS, own, promise) for name, own in zip("abc", rows, strict=True)}
    check_signed(sql, streams, turns, every)


# --- by itself -----------------------------------------------------------------------------------


def three(probes: tuple[tuple[int, ...], ...] = ()) -> Join:
    stream = Stream("k BIGINT, j BIGINT, t BIGINT", [], ps.progress("t", delay=5))
    windows = "a [RANGE 5, WA t], b [RANGE 3, WA t], c [RANGE 4, WA t]"
    sql = f"SELECT a.k FROM {windows} WHERE a.k = b.k AND b.j = c.j AND a.k = c.k"
    plan = planned(sql, JoinKind.INNER, None, a=stream, b=stream, c=stream)
    join = next(node for node in plan.walk() if isinstance(node, Join))
    return arranged(join, flat(3, probes))


def rows_for(node: Join, port: int, *rows: tuple[int, int, int]) -> Batch:
    columns = [pa.array([row[place] for row in rows], pa.int64()) for place in range(3)]
    return Batch(pa.RecordBatch.from_arrays(columns, schema=node.branches[port].schema.arrow))


def test_a_result_is_found_by_its_last_tuple_and_tuples_are_kept_while_partners_may_come() -> None:
    node = three()
    join = MultiwayJoin(node)
    assert list(join.on_batch(0, rows_for(node, 0, (1, 7, 10), (2, 7, 10)))) == []
    assert list(join.on_batch(2, rows_for(node, 2, (1, 7, 12)))) == []
    assert join.rows_held() == 3
    (found,) = join.on_batch(1, rows_for(node, 1, (1, 7, 11), (1, 8, 11)))
    assert isinstance(found, Batch)
    assert found.rows.to_pylist() == [
        dict(zip(node.schema.arrow.names, (1, 7, 10, 1, 7, 11, 1, 7, 12), strict=True))
    ]
    # a tuple of a waits for b and for c: only when both are beyond 15 is it forgotten
    join.on_progress(1, Progress({"b.t": 99}))
    assert join.rows_held() == 5
    join.on_progress(2, Progress({"c.t": 16}))
    join.on_progress(0, Progress({"a.t": 99}))
    assert join.rows_held() == 0
    # what is below that can be in no result any more, and is not kept
    join.on_batch(0, rows_for(node, 0, (1, 7, 100)))
    assert join.rows_held() == 1


def test_keys_that_are_null_are_not_kept() -> None:
    node = three()
    join = MultiwayJoin(node)
    rows = pa.RecordBatch.from_arrays(
        [pa.array([None, 1], pa.int64()), pa.array([1, 1]), pa.array([3, 3])],
        schema=node.branches[1].schema.arrow,
    )
    assert list(join.on_batch(1, Batch(rows))) == []
    assert join.rows_held() == 1


@settings(deadline=None, max_examples=30)
@given(
    items=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.lists(
                st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 9)),
                min_size=1,
                max_size=6,
            ),
        ),
        max_size=10,
    ),
    every=st.integers(1, 3),
)
def test_orders_of_probes_change_on_the_way(
    items: list[tuple[int, list[tuple[int, int, int]]]], every: int
) -> None:
    """State moves from one order to another, by exchange and by what is saved."""
    orders = [tuple(order) for order in product(*(orders_of(3, own) for own in range(3)))]
    steady, node = MultiwayJoin(three()), three()
    changing, store = MultiwayJoin(node), MemoryStore()
    expected: list[str] = []
    found: list[str] = []
    for number, (port, rows) in enumerate(items):
        batch = rows_for(node, port, *rows)
        for join, made in ((steady, expected), (changing, found)):
            for each in join.on_batch(port, batch):
                assert isinstance(each, Batch)
                made += [str(row) for row in each.rows.to_pylist()]
        if number % every == 0:
            other = MultiwayJoin(three(orders[number * 7 % len(orders)]))
            if number % 2:
                other.adopt(changing.export())
                store = MemoryStore()
            else:  # a store is that of one operator, and of those that go on from it
                changing.save(store)
                other.load(store)
            changing = other
        assert changing.rows_held() == steady.rows_held()
    assert sorted(found) == sorted(expected)
