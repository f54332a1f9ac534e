"""Groups leave a window in the order of their keys, whichever came first: what counts rows of
results sees one order, whatever the algorithm, the cut, the order of arrival and the engine are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.grouping.keys import KeyCodes
from penstock.local.scheduling.scheduler import answer as local
from penstock.model.clock import ManualClock
from penstock.model.ordering import sort_key
from penstock.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Type,
    decimal_type,
)
from penstock.model.values import to_arrow, to_python
from penstock.optimizer.rewrite import Settings
from penstock.optimizer.simplification import canonical_order
from penstock.plan.algorithms import Algorithm
from penstock.reference.engine import answer as reference
from tests.local.helpers import locally
from tests.planning import in_process, on_spark
from tests.reference.helpers import Row, Stream, ask, bag, tuples
from tests.spark.test_every_cut import asked, assert_reference, cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

SCHEMA = "link STRING, k STRING, x INT, t INT"
ROWS = st.lists(
    st.tuples(
        st.sampled_from("uv"),
        st.sampled_from(["b", "a", None, "é", "Z"]),
        st.sampled_from([2, None, 1, -1]),
        st.integers(0, 20),
    ),
    max_size=25,
)
INNER = (
    *(
        f"SELECT /*+ {algorithm.name} */ k, x, count(*) AS n [{window}, WA t] FROM s GROUP BY k, x"
        for algorithm in Algorithm
        for window in ("RANGE 10, SLIDE 3", "RANGE 4, SLIDE 6")
    ),
    "SELECT k, count(*) AS n [RANGE ALL, SLIDE 5, WA t] FROM s GROUP BY k",
    "SELECT x, count(*) AS n [RANGE 6, RATTR t, SLIDE 1 ROW, SATTR rank(t)] FROM s GROUP BY x",
    "SELECT k, t, count(*) AS n FROM s GROUP BY k, t",
    "SELECT t, x, k, count(*) AS n FROM s GROUP BY t, x, k",
)
WITHIN = (
    "SELECT k, count(*) AS n [RANGE 5 ROWS, SLIDE 3 ROWS, WA row-num] FROM s GROUP BY k",
    "SELECT k, count(*) AS n [RANGE 64 ROWS, SLIDE 32 ROWS, WA row-num] FROM s GROUP BY k",
    "SELECT k, count(*) AS n [RANGE 5 ROWS, SLIDE 3 ROWS, WA rank(t)] FROM s GROUP BY k",
    "SELECT k, x [RANGE 6, RATTR t, SLIDE 1 ROW, SATTR rank(t), PA k], count(*) AS n FROM s"
    " GROUP BY k, x",
)
# These leave in order only where something counts them.
COUNTED = (
    "SELECT DISTINCT k, x AS n, t FROM s",
    "SELECT DISTINCT CAST(t * 0.1 AS INT) AS tens, x AS n, t FROM s",
    "SELECT CAST(t * 0.1 AS INT) AS tens, k, t, count(*) AS n FROM s"
    " GROUP BY CAST(t * 0.1 AS INT), k, t",
    "SELECT t, k, CAST(t * 0.1 AS INT) AS tens, sum(x) AS n FROM s"
    " GROUP BY x, t, k, CAST(t * 0.1 AS INT)",
    "SELECT k, count(*) AS n [RANGE 6, RATTR t, SLIDE 2 ROWS, SATTR rank(t), PA k] FROM s",
    "SELECT x, max(t) AS n [RANGE 6, RATTR t, SLIDE 2 ROWS, SATTR row-num, PA (link, k)] FROM s"
    " GROUP BY x",
    # windows of partitions come as the tuples do that fill them
    "SELECT k, sum(x) AS n [RANGE 2 ROWS, SLIDE 1 ROW, WA row-num, PA k] FROM s",
    "SELECT x, max(t) AS n [RANGE 5 ROWS, SLIDE 3 ROWS, WA rank(t), PA (link, k)] FROM s"
    " GROUP BY x",
    "SELECT k, count(*) AS n [RANGE ALL, SLIDE 2 ROWS, WA row-num, PA x] FROM s GROUP BY k",
    "SELECT k, count(*) AS n [RANGE 64 ROWS, SLIDE 32 ROWS, WA row-num, PA k] FROM s",
)
OUTER = (
    "SELECT sum(n) AS total, count(*) AS c [RANGE 3 ROWS, SLIDE 2 ROWS, WA row-num]"
    " FROM (SELECT n FROM ({inner}) AS p WHERE n > 0) AS q",
    "SELECT last(n) AS z, first(n) AS a [RANGE 3 ROWS, SLIDE 2 ROWS, WA row-num]"
    " FROM ({inner}) AS q",
)
RANKED = (
    "SELECT sum(n) AS total, last(n) AS z [RANGE 3 ROWS, SLIDE 2 ROWS, WA rank(t)]"
    " FROM ({inner}) AS q",
    "SELECT sum(n) AS total, last(n) AS z [RANGE 4, RATTR t, SLIDE 2 ROWS, SATTR row-num]"
    " FROM ({inner}) AS q",
    "SELECT count(*) AS c, max(n) AS z [RANGE 3, SLIDE 3, WA window_end] FROM"
    " (SELECT sum(n) AS n [RANGE 3 ROWS, SLIDE 2 ROWS, WA row-num] FROM ({inner}) AS p) AS q",
)
RULES = st.sampled_from([{"delay": 3}, {"delay": 100}, {"ordered": True}])
TYPES: list[tuple[Type, list[Any]]] = [
    (BIGINT, [3, None, -(2**63), 2**63 - 1, 0]),
    (DOUBLE, [1.5, None, float("nan"), -0.0, float("inf"), float("-inf"), -2.0]),
    (STRING, ["b", "", None, "é", "Z", "ab", "a"]),
    (BINARY, [b"\xff", b"", None, b"a"]),
    (BOOLEAN, [True, None, False]),
    (decimal_type(9, 2), [Decimal("1.50"), None, Decimal("-9.00"), Decimal("0.00")]),
    (DATE, [5, None, -5]),
    (TIMESTAMP, [5, None, -5]),
    (INTERVAL, [5, None, -5]),
]


@pytest.mark.parametrize(("sql_type", "values"), TYPES, ids=[str(each) for each, _ in TYPES])
def test_keys_are_in_the_order_of_the_definition(sql_type: Type, values: list[Any]) -> None:
    keys = KeyCodes([sql_type])
    codes = keys.encode([to_arrow(values, sql_type)], len(values))
    expected = sorted(values, key=sort_key)
    found = to_python(keys.take(codes[keys.order_of(codes)])[0], sql_type)
    assert list(map(repr, found)) == [
        repr(0.0 if each == 0.0 and isinstance(each, float) else each) for each in expected
    ]
    assert (
        keys.present(np.ones(len(values), np.int64)).tolist()
        == codes[keys.order_of(codes)].tolist()
    )


def test_few_groups_among_many_keys() -> None:
    keys = KeyCodes([BIGINT, STRING])
    numbers = list(range(10_000, 0, -1))
    keys.encode([pa.array(numbers), pa.array(["x"] * 10_000)], 10_000)
    some = np.array([5, 9_999, 17])
    assert some[keys.order_of(some)].tolist() == [9_999, 17, 5]
    assert keys.present(np.ones(10_000, np.int64)).tolist() == list(range(9_999, -1, -1))
    keys.encode([pa.array([3]), pa.array(["a"])], 1)
    assert keys.order_of(np.array([10_000, 9_997])).tolist() == [0, 1]


@settings(deadline=None, max_examples=90)
@given(
    rows=ROWS, rule=RULES, sql=st.sampled_from(INNER + WITHIN), cut=st.sampled_from([1, 4, None])
)
def test_rows_in_process(rows: list[Row], rule: dict[str, Any], sql: str, cut: int | None) -> None:
    stream = Stream(SCHEMA, rows, ps.progress("t", **rule))
    query = ask(sql, s=stream)
    expected = tuples(query.collect())
    assert tuples(locally(sql, cut, s=stream).table) == expected
    # the optimizer may put keys in another order; groups leave as they were written
    plan = canonical_order(query.plan, Settings())
    assert tuples(reference(plan, ManualClock()).table) == expected
    assert tuples(local(in_process(plan), ManualClock()).table) == expected


@settings(deadline=None, max_examples=90)
@given(
    data=st.data(),
    rows=ROWS,
    rule=RULES,
    inner=st.sampled_from(INNER),
    outer=st.sampled_from(OUTER),
    cut=st.sampled_from([1, 4, None]),
    late=st.sampled_from(["", " LATE AMEND FOR 3"]),
)
def test_counted_rows(
    data: st.DataObject,
    rows: list[Row],
    rule: dict[str, Any],
    inner: str,
    outer: str,
    cut: int | None,
    late: str,
) -> None:
    assert_counted(data, rows, rule, outer, inner, cut, late)


@settings(deadline=None, max_examples=80)
@given(
    data=st.data(),
    rows=ROWS,
    rule=RULES,
    inner=st.sampled_from(COUNTED),
    outer=st.sampled_from(OUTER + RANKED),
    cut=st.sampled_from([1, 7, None]),
    late=st.sampled_from(["", " LATE AMEND FOR 3"]),
)
def test_rows_that_wait_to_be_counted(
    data: st.DataObject,
    rows: list[Row],
    rule: dict[str, Any],
    inner: str,
    outer: str,
    cut: int | None,
    late: str,
) -> None:
    assume("PA" not in inner or outer in OUTER)  # partitions do not progress
    assert_counted(data, rows, rule, outer, inner, cut, late)


def assert_counted(
    data: st.DataObject,
    rows: list[Row],
    rule: dict[str, Any],
    outer: str,
    inner: str,
    cut: int | None,
    late: str,
) -> None:
    if late:
        inner = inner.replace("/*+", "/* ").replace("RANGE ALL, SLIDE 5", "RANGE 9, SLIDE 5")
    sql = outer.format(inner=inner) + late
    progress = ps.progress("t", **rule)
    stream = Stream(SCHEMA, rows, progress)
    expected = tuples(ask(sql, s=stream).collect())
    assert tuples(locally(sql, cut, s=stream).table) == expected
    query = asked(sql, progress, rows)
    job = WithoutSpark(canonical_order(query.plan, Settings()), 3)
    run_in_cuts(job, query, {"s": data.draw(cuts(len(rows)))}, 3, {2})
    assert_reference(query, job)


def test_groups_that_are_punctuated_early_wait_for_the_others() -> None:
    rows = [("d", "b", 1, 1), ("d", "a", 1, 2), ("p", "b", None, 9), ("d", "a", 1, 12)]
    inner = "SELECT k, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k"
    sql = f"SELECT first(k) AS k [RANGE 1 ROWS, SLIDE 1 ROWS, WA row-num] FROM ({inner}) AS q"
    progress = ps.progress("t", punctuated=("link = 'p'", "t"), punctuated_for=["k"])
    stream = Stream(SCHEMA, rows, progress)
    for cut in (1, None):
        found = tuples(locally(sql, cut, s=stream).table)
        assert found == tuples(ask(sql, s=stream).collect())
        assert [row[-1] for row in found] == ["a", "b", "a"]


@pytest.mark.parametrize("order", ["row-num", "rank(t)"])
@pytest.mark.parametrize("apart", [True, False])
def test_row_windows_of_partitions_are_counted_apart_or_together(order: str, apart: bool) -> None:
    rows = [("u", k, x, x) for x, k in enumerate("babbaacab")]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=3))
    inner = f"SELECT k AS q, sum(x) AS n [RANGE 2 ROWS, SLIDE 1 ROW, WA {order}, PA k] FROM s"
    sql = "SELECT {0} sum(n) AS n [RANGE 2 ROWS, SLIDE 2 ROWS, WA row-num{1}] FROM ({2}) AS p"
    sql = sql.format("q,", ", PA q", inner) if apart else sql.format("", "", inner)
    expected = bag(tuples(ask(sql, s=stream).collect()))
    query = asked(sql, ps.progress("t", delay=3), rows)
    keys = [port.keys for node in on_spark(query.plan).root.walk() for port in node.ports]
    assert any(keys) == apart  # those that are counted together meet in one place
    for cut in (1, 7, None):
        assert bag(tuples(locally(sql, cut, s=stream).table)) == expected
        job = WithoutSpark(query.plan, 3)
        size = cut or len(rows)
        planned = [(at, min(at + size, len(rows))) for at in range(0, len(rows), size)]
        run_in_cuts(job, query, {"s": planned}, 3, set())
        assert_reference(query, job)


def test_row_windows_of_partitions_come_as_they_are_filled() -> None:
    """Those that are not full at the end come by number, then by partition."""
    rows = [("u", k, x, x) for x, k in enumerate("bbaabbca")]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=3))
    inner = "SELECT k AS q, count(*) AS n [RANGE 2 ROWS, SLIDE 2 ROWS, WA row-num, PA k] FROM s"
    sql = f"SELECT first(q) AS q [RANGE 1 ROWS, SLIDE 1 ROWS, WA row-num] FROM ({inner}) AS p"
    for cut in (1, 3, None):
        found = tuples(locally(sql, cut, s=stream).table)
        assert [row[-1] for row in found] == ["b", "a", "b", "c", "a"]


def test_very_many_windows_of_partitions_are_put_in_order_in_pieces() -> None:
    rows = [("u", "ab"[x % 7 > 2], x, x) for x in range(10_000)]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=3))
    inner = "SELECT k, last(x) AS x [RANGE 2 ROWS, SLIDE 1 ROW, WA row-num, PA k] FROM s"
    sql = f"SELECT last(x) AS x [RANGE 1 ROWS, SLIDE 1 ROWS, WA row-num] FROM ({inner}) AS p"
    found = locally(sql, s=stream).table.column("x").to_pylist()
    assert found[:10_000] == list(range(10_000))


def test_items_that_are_taken_back_fill_no_window_by_themselves() -> None:
    stream = Stream(SCHEMA, [("u", "a", 1, 1)], ps.progress("t", delay=3))
    items = "s [RANGE 9, WA t] EXCEPT ON (link) r [RANGE 2, WA t]"
    inner = f"SELECT k AS q, sum(x) AS n [RANGE 2 ROWS, SLIDE 1 ROW, WA row-num, PA k] FROM {items}"
    sql = "SELECT sum(n) AS n [RANGE 2 ROWS, SLIDE 2 ROWS, WA row-num] FROM ({0}) AS p"
    with pytest.raises(ps.PenstockError, match="no order to be counted in") as caught:
        ask(sql.format(inner), s=stream, r=stream)
    assert "PA k" in str(caught.value)
    assert "^^^" in str(caught.value)


def test_keys_that_are_passed_early_promise_no_more_than_has_come() -> None:
    """Groups wait for their first key; until they come, what the others promise is held back."""
    rows = [("u", "b", 1, 12), ("u", "a", 1, 14), ("u", "c", 1, 17), ("u", "a", 1, 40)]
    inner = "SELECT CAST(t * 0.1 AS INT) AS tens, k, t FROM s GROUP BY CAST(t * 0.1 AS INT), k, t"
    sql = f"SELECT last(k) AS k [RANGE 1 ROWS, SLIDE 1 ROWS, WA rank(t)] FROM ({inner}) AS q"
    stream = Stream(SCHEMA, rows, ps.progress("t", ordered=True))
    for cut in (1, None):
        found = tuples(locally(sql, cut, s=stream).table)
        assert found == tuples(ask(sql, s=stream).collect())
