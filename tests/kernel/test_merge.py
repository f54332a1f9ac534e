"""Merge: the rows of a union leave in order, and those that come too late for that are late, as
they are where rows are put in order at the end."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.order import Merge
from penstock.optimizer.lowering import lower
from penstock.optimizer.optimize import SIMPLIFYING, optimize
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.node import Union
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from tests.local.helpers import recut
from tests.local.side_by_side import (
    TURNS,
    Planning,
    punctuations,
    rows_of,
    run_interleaved,
    ticks_of,
)
from tests.planning import in_process
from tests.reference.helpers import Stream, bag, database, tuples

SCHEMA = "k STRING, x INT, t BIGINT"
ROWS = st.lists(
    st.tuples(st.sampled_from(["v", "w", None]), st.integers(0, 3), st.integers(-5, 20)),
    max_size=12,
)
RULES = st.sampled_from([{"delay": 0}, {"delay": 4}, {"slack": 2}, {"ordered": True}])
# The column that rows are sorted by, and whether Merge can do it.
SELECTS = [
    ("t", True, "SELECT k, t FROM a UNION ALL SELECT k, t FROM b"),
    ("t", True, "SELECT t, x FROM (SELECT x, t FROM a UNION ALL SELECT x, t FROM b) AS u"),
    (
        "s",
        True,
        "SELECT x, t * 2 - 5 AS s FROM (SELECT x, t FROM a UNION ALL SELECT x, t FROM b"
        " UNION ALL SELECT x, t + 3 AS t FROM a) AS u",
    ),
    (  # rows that are filtered out, and may be too large for the sum, do not come so far
        "s",
        True,
        "SELECT x, t * 2 AS s FROM (SELECT x, t FROM a UNION ALL SELECT x, t FROM b) AS u"
        " WHERE x > 1",
    ),
    (
        "t",
        True,
        "SELECT t, x FROM (SELECT x, t FROM a UNION ALL SELECT x, t FROM b) AS u WHERE x > 1",
    ),
    (
        "s",
        True,
        "SELECT greatest(t, y) AS s FROM (SELECT t, t - 4 AS y FROM a UNION ALL"
        " SELECT t - 4 AS t, t AS y FROM b) AS u",
    ),
    (
        "e",
        True,
        "SELECT window_end AS e, n FROM (SELECT count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM a"
        " UNION ALL SELECT count(*) AS n [RANGE 4, SLIDE 2, WA t] FROM b) AS u",
    ),
]


def with_order(query: QueryPlan) -> PhysicalPlan:
    """Without the rule that lets rows leave in order by themselves."""
    return optimize(query, Settings(), (*SIMPLIFYING, lower))


def planned(select: str, rows: Any, rule: dict[str, Any], cut: int | None = 1) -> ps.Query:
    streams = {
        "a": Stream(SCHEMA, rows[0], ps.progress("t", **rule)),
        "b": Stream(SCHEMA, rows[1], ps.progress("t", delay=2)),
    }
    db = database(**streams)
    recut(db, cut)
    query = db.sql(f"{select} LATE SIDE EMIT IN ORDER")
    assert isinstance(query, ps.Query)
    return query


def operators(plan: PhysicalPlan) -> list[str]:
    return [node.operator.value for node in plan.root.walk()]


@pytest.mark.parametrize(("select", "merges"), [(sql, merges) for _, merges, sql in SELECTS])
def test_the_plan_merges_where_that_is_enough(select: str, merges: bool) -> None:
    query = planned(select, ([], []), {"delay": 1})
    found = operators(in_process(query.plan))
    assert ("Merge" in found) is merges
    assert ("Order" in found) is not merges


def test_explain_says_what_rows_are_sorted_by() -> None:
    db = ps.connect()
    for name in "ab":
        db.stream(name, [{"t": 1}], progress=ps.progress("t", delay=1))
    text = "SELECT t + 1 AS s FROM (SELECT t FROM a UNION ALL SELECT t FROM b) AS u EMIT IN ORDER"
    query = db.sql(text)
    assert isinstance(query, ps.Query)
    assert "order: sorted by (t + 1)" in query.explain(physical=True)


@settings(deadline=None, max_examples=60)
@given(
    rows=st.tuples(ROWS, ROWS),
    rule=RULES,
    select=st.sampled_from(SELECTS),
    turns=TURNS,
    cut=st.sampled_from([1, 3, None]),
    every=st.sampled_from([None, 1, 3]),
    plans=st.sampled_from([(in_process,), (with_order, in_process), (in_process, with_order)]),
)
def test_rows_are_those_of_the_reference_in_order(
    rows: tuple[list[Any], list[Any]],
    rule: dict[str, Any],
    select: tuple[str, bool, str],
    turns: list[int],
    cut: int | None,
    every: int | None,
    plans: tuple[Planning, ...],
) -> None:
    """A run may go on with a plan that puts rows in order at the end, and back."""
    name, _, sql = select
    query = planned(sql, rows, rule, cut)
    expected = query.collect()
    found = run_interleaved(query.plan, turns, every, plans)
    assert bag(tuples(found.rows)) == bag(tuples(expected))
    assert bag(tuples(found.late) if found.late is not None else []) == bag(tuples(query.late))
    ticks = ticks_of(found.batches, name)
    assert ticks == sorted(ticks)


def test_rows_wait_for_the_slowest_input() -> None:
    query = planned(SELECTS[0][2], ([], []), {"delay": 1})
    node = next(node for node in query.plan.walk() if isinstance(node, Union))
    left, right = (branch.schema.arrow.names for branch in node.branches)
    merge = Merge(node)

    def rows(names: list[str], *ticks: int) -> Batch:
        keys = pa.nulls(len(ticks), pa.string())
        return Batch(pa.record_batch([keys, pa.array(ticks, pa.int64())], names))

    assert merge.on_batch(0, rows(left, 4, 2, 9)) == []
    assert merge.on_progress(0, Progress({left[1]: 9})) == []
    assert merge.metrics().rows == 3
    assert merge.on_batch(1, rows(right, 3)) == []
    made = merge.on_progress(1, Progress({right[1]: 4}))
    assert [tick for _, tick in rows_of(made)] == [2, 3, 4]  # what follows is at 4 or above it
    assert [item.bounds for item in punctuations(made)] == [{"t": 4}]
    assert merge.metrics().rows == 1
