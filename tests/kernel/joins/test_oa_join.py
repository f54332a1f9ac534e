"""OA-Join by itself: pairs at once, promises that are kept, and no tuple kept in vain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import PlanError
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, Operator, Progress
from penstock.model.clock import ManualClock
from penstock.plan.expressions import Column
from penstock.plan.nodes.join import JoinKind
from penstock.reference.engine import evaluate
from penstock.reference.relation import Run
from tests.kernel.joins.feeding import Needed, feed, items_of, join_of, new
from tests.kernel.restarting import Restarting
from tests.local.joining import CUT, FROM, STREAM, WHERE, planned
from tests.reference.helpers import Stream, bag, tuples

PICKS = st.lists(st.integers(0, 1), max_size=30)
SQL = "SELECT l.k, r.k FROM {source} {where}"


@settings(deadline=None, max_examples=150)
@given(
    left=STREAM,
    right=STREAM,
    kind=st.sampled_from(JoinKind),
    source=st.sampled_from(FROM),
    where=st.sampled_from(WHERE),
    cut=CUT,
    picks=PICKS,
    every=st.sampled_from([None, 1, 3]),
)
def test_against_the_reference(
    left: Stream,
    right: Stream,
    kind: JoinKind,
    source: str,
    where: str,
    cut: int | None,
    picks: list[int],
    every: int | None,
) -> None:
    select = "SELECT l.k, l.t FROM {source} {where}" if kind.left_alone else SQL
    sql = select.format(source=source, where=where)
    node = join_of(planned(sql, kind, cut, l=left, r=right))
    operator = None if every is None else Restarting(lambda: new(node), every)
    found = feed(node, items_of(node, picks), operator)
    expected = evaluate(node, Run(clock=ManualClock()))
    rows = [row for batch in found.rows for row in tuples(pa.Table.from_batches([batch.rows]))]
    assert bag(rows) == bag(row.values for row in expected.rows)


@settings(deadline=None, max_examples=80)
@given(
    left=STREAM,
    right=STREAM,
    kind=st.sampled_from([JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL]),
    source=st.sampled_from(FROM),
    cut=CUT,
    picks=PICKS,
)
def test_nothing_is_kept_that_joins_nothing_to_come(
    left: Stream, right: Stream, kind: JoinKind, source: str, cut: int | None, picks: list[int]
) -> None:
    node = join_of(planned(SQL.format(source=source, where=""), kind, cut, l=left, r=right))
    needed = Needed(node)

    def look(operator: Operator, port: int, item: Item) -> None:
        needed.take_in(port, item)
        held = operator.metrics().rows
        assert needed.rows <= held <= needed.rows + held // 5
        assert operator.metrics().open <= held

    feed(node, items_of(node, picks), after=look)
    assert needed.rows == 0


# --- single items --------------------------------------------------------------------------------

L = pa.schema([("l.k", pa.int64()), ("l.t", pa.int64())])
R = pa.schema([("r.k", pa.int64()), ("r.t", pa.int64())])


def two(window: str, where: str = "", kind: JoinKind = JoinKind.INNER) -> Any:
    stream = Stream("k BIGINT, t BIGINT", [], ps.progress("t", delay=5))
    source = f"l [RANGE {window}, WA t], r" if "TUMBLING" in window else window
    return join_of(planned(f"SELECT l.k FROM {source} {where}", kind, None, l=stream, r=stream))


def rows(port: int, *values: tuple[int | None, int], signs: list[int] | None = None) -> Batch:
    schema = (L, R)[port]
    columns = [pa.array([row[i] for row in values], pa.int64()) for i in range(2)]
    given = None if signs is None else np.array(signs, np.int8)
    return Batch(pa.RecordBatch.from_arrays(columns, schema=schema), given)


def upto(port: int, bound: int) -> Progress:
    return Progress({("l.t", "r.t")[port]: bound})


RANGES = "l [RANGE 3, WA t], r [RANGE 2, WA t]"


def test_a_tuple_that_joins_nothing_to_come_is_not_kept() -> None:
    """Figure 7-1: a left tuple waits for right ones up to 3 later, and so on."""
    join = new(two(RANGES))
    join.on_progress(1, upto(1, 10))
    join.on_batch(0, rows(0, (1, 6)))
    assert join.metrics().rows == 0
    join.on_batch(0, rows(0, (1, 7)))
    assert join.metrics().rows == 1
    join.on_progress(0, upto(0, 7))
    join.on_batch(1, rows(1, (1, 10), (1, 4), (1, 5)))  # 4 would have needed a left tuple at 6
    assert join.metrics().rows == 3
    join.on_progress(1, upto(1, 11))
    assert join.metrics().rows == 2


def test_tumbling_windows_are_compared_by_floor_on_both_sides() -> None:
    join = new(two("TUMBLING 5"))
    join.on_progress(1, upto(1, -3))  # in the window from -5 to -1
    join.on_batch(0, rows(0, (1, -6), (1, -5)))
    assert join.metrics().rows == 1
    join.on_progress(1, upto(1, 0))
    assert join.metrics().rows == 0


def test_results_leave_at_once() -> None:
    join = new(two(RANGES, "WHERE l.k = r.k"))
    join.on_batch(0, rows(0, (1, 6), (2, 6), (None, 6)))
    (found,) = join.on_batch(1, rows(1, (2, 9), (2, 10), (None, 6), (1, 4)))
    assert isinstance(found, Batch)
    assert bag(tuples(pa.Table.from_batches([found.rows]))) == [(1, 6, 1, 4), (2, 6, 2, 9)]


def test_progress() -> None:
    join = new(two(RANGES))
    assert join.on_progress(0, upto(0, 10)) == []  # the right side may be anywhere
    (first,) = join.on_progress(1, upto(1, 11))
    assert isinstance(first, Progress)
    assert first.bounds == {"l.t": 8, "r.t": 8}
    assert [each.bounds for each in first.joint] == [(10, 11)]
    assert join.on_progress(1, upto(1, 11)) == []
    (second,) = join.on_progress(1, upto(1, 14))
    assert isinstance(second, Progress)
    assert second.bounds == {"l.t": 10, "r.t": 8}
    assert second.joint == ()  # too far apart: the bound on l.t says as much
    (third,) = join.on_progress(0, Progress(ended=True))
    assert isinstance(third, Progress)
    assert third.bounds == {"l.t": 11, "r.t": 14}
    (last,) = join.on_progress(1, Progress(ended=True))
    assert last == Progress(ended=True)


def test_tuples_without_a_partner_leave_when_none_can_come() -> None:
    join = new(two(RANGES, "WHERE l.k = r.k", JoinKind.LEFT))
    join.on_batch(0, rows(0, (1, 6), (2, 6)))
    (null,) = join.on_batch(0, rows(0, (None, 6)))  # NULL equals nothing
    assert isinstance(null, Batch)
    join.on_batch(1, rows(1, (2, 8)))
    assert join.open_results().count == 1
    assert join.on_progress(1, upto(1, 9)) == []
    alone, _ = join.on_progress(1, upto(1, 10)) + join.on_progress(0, upto(0, 0))
    assert isinstance(alone, Batch)
    assert tuples(pa.Table.from_batches([alone.rows])) == [(1, 6, None, None)]
    assert join.open_results().count == 0
    (at_once,) = join.on_batch(0, rows(0, (3, 5)))
    assert isinstance(at_once, Batch)
    assert tuples(pa.Table.from_batches([at_once.rows])) == [(3, 5, None, None)]


def test_semi_gives_a_tuple_once_and_forgets_it() -> None:
    join = new(two(RANGES, "WHERE l.k = r.k", JoinKind.SEMI))
    join.on_batch(0, rows(0, (1, 6), (1, 6), (2, 6)))
    found = join.on_batch(1, rows(1, (1, 6), (1, 7)))
    assert sum(batch.num_rows for batch in found if isinstance(batch, Batch)) == 2
    assert join.on_batch(1, rows(1, (1, 7))) == []
    join.on_progress(1, upto(1, 0))
    assert join.metrics().rows == 1 + 3


@settings(deadline=None, max_examples=60)
@given(
    items=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.lists(
                st.tuples(st.integers(0, 2), st.integers(-5, 8), st.sampled_from([1, 1, -1])),
                min_size=1,
                max_size=4,
            ),
        ),
        max_size=8,
    ),
    every=st.integers(1, 3),
)
def test_the_sign_of_a_pair_is_the_product(
    items: list[tuple[int, list[tuple[int, int, int]]]], every: int
) -> None:
    node = two(RANGES, "WHERE l.k = r.k")
    join = Restarting(lambda: new(node), every)
    seen: tuple[list[Any], list[Any]] = ([], [])
    found = []
    for port, given_rows in items:
        seen[port].extend(given_rows)
        signs = [sign for _, _, sign in given_rows]
        batch = rows(port, *((k, t) for k, t, _ in given_rows), signs=signs)
        for each in join.on_batch(port, batch):
            assert isinstance(each, Batch)
            values = tuples(pa.Table.from_batches([each.rows]))
            made = [1] * len(values) if each.signs is None else each.signs.tolist()
            found += [(*row, sign) for row, sign in zip(values, made, strict=True)]
    expected = [
        (k, s, j, t, one * other)
        for k, s, one in seen[0]
        for j, t, other in seen[1]
        if k == j and t - s <= 3 and s - t <= 2
    ]
    assert bag(found) == bag(expected)


def test_what_is_taken_back_has_no_partners_to_miss() -> None:
    db = ps.connect("reference")
    for name in ("l", "r", "u"):
        db.stream(name, [], schema="k BIGINT, t BIGINT", progress=ps.progress("t", delay=5))
    difference = db.sql("SELECT k FROM l EXCEPT ON (k) r")
    assert isinstance(difference, ps.Query)
    signed = next(node for node in difference.plan.walk() if node.signed and node.stateful)
    node = two(RANGES)
    branches = (signed, node.branches[1])
    attributes = (Column.of(signed.progress[0].field), node.attributes[1])
    joined = replace(node, branches=branches, attributes=attributes)
    assert joined.signed
    with pytest.raises(PlanError, match="LEFT join cannot know which tuples"):
        replace(joined, kind=JoinKind.LEFT)


def pairs_in(items: list[Item]) -> int:
    return sum(each.num_rows for each in items if isinstance(each, Batch))


def test_a_key_with_very_many_tuples() -> None:
    """The pairs of a batch come in pieces."""
    join = new(two("l [RANGE 2000000, WA t], r [RANGE 2, WA t]", "WHERE l.k = r.k"))
    many = np.arange(1_000_000)
    columns = [pa.array(np.ones(len(many), np.int64)), pa.array(many)]
    join.on_batch(0, Batch(pa.RecordBatch.from_arrays(columns, schema=L)))
    found = join.on_batch(1, rows(1, (1, 999_999)))
    assert not isinstance(found, list)  # each is made when the one before it has been taken
    sizes = [each.num_rows for each in found if isinstance(each, Batch)]
    assert sum(sizes) == 1_000_000
    assert max(sizes) <= 1 << 16
    assert join.metrics().rows == 1_000_001


@pytest.mark.parametrize("low", [-(2**63), 2**63 - 8])
def test_ends_of_64_bits(low: int) -> None:
    join = new(two("TUMBLING 5"))
    left, right = range(low, low + 8), range(low, low + 8)
    join.on_batch(0, rows(0, *((1, t) for t in left)))
    found = join.on_batch(1, rows(1, *((1, t) for t in right)))
    expected = sum(s // 5 == t // 5 for s in left for t in right)
    assert pairs_in(found) == expected


def test_keys_and_times_that_do_not_fit_one_number() -> None:
    times = [-(2**63), -5, 0, 2**62, 2**63 - 1]
    join = new(two("l [RANGE 4, WA t], r [RANGE 5, WA t]", "WHERE l.k = r.k"))
    join.on_batch(0, rows(0, *((k, t) for k in range(9) for t in times)))
    found = join.on_batch(1, rows(1, *((k, t) for k in range(12) for t in times)))
    assert pairs_in(found) == 9 * 6
