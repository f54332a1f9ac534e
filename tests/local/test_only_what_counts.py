"""Keys, filters and arguments are evaluated for tuples that count and for no others: not for late
ones, nor between windows, nor arguments where a FILTER says no.  So it is a matter of the data, and
the same in every engine and for every cut, whether an expression without a value is an error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import RunError
from penstock.kernel.state import MemoryStore
from penstock.plan.algorithms import Algorithm
from tests.local.helpers import assert_same, locally, recut
from tests.local.resumed import run_in_parts
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples
from tests.spark.test_every_cut import cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

SCHEMA = "link STRING, k STRING, x INT, z STRING, t INT"
BY_TUPLE = (
    "{calls} [RANGE 3, RATTR t, SLIDE 2 ROWS, SATTR row-num]",
    "{calls} [RANGE 4, RATTR t, SLIDE 3 ROWS, SATTR rank(t)]",
    "{calls} [RANGE 6, RATTR t, SLIDE 2 ROWS, SATTR row-num, PA k]",
    "{calls} [RANGE 2, RATTR t, SLIDE 3 ROWS, SATTR rank(t), PA link]",
    "{calls} [RANGE 5, RATTR t, SLIDE 1 ROW, SATTR row-num, PA k]",
)
WINDOWS = (
    *(
        f"/*+ {algorithm.name} */ {{calls}} [{window}, WA t]"
        for algorithm in Algorithm
        for window in ("RANGE 10, SLIDE 3", "RANGE 4, SLIDE 4", "RANGE 2, SLIDE 5")
    ),
    "{calls} [RANGE ALL, SLIDE 4, WA t]",
    "{calls} [RANGE 6, RATTR t, SLIDE 1 ROW, SATTR rank(t)]",
    "{calls} [RANGE 6, RATTR t, SLIDE 1 ROW, SATTR row-num]",
    *BY_TUPLE,
    "{calls} [RANGE 2 ROWS, SLIDE 3 ROWS, WA row-num]",
    "{calls} [RANGE 2 ROWS, SLIDE 3 ROWS, WA rank(t)]",
    "{calls} [RANGE 2 ROWS, SLIDE 5 ROWS, WA row-num, PA k]",
    "{calls} [RANGE 32 ROWS, SLIDE 64 ROWS, WA row-num]",
    "{calls} [RANGE 3 ROWS, SLIDE 1 ROWS, WA rank(t), PA CAST(z AS INT)]",
)
CALLS = (
    "sum(CAST(z AS INT)) FILTER (WHERE z <> 'x') AS a",
    "max(CAST(z AS INT)) FILTER (WHERE x > 0) AS a, count(*) AS n",
    "count(*) FILTER (WHERE CAST(z AS INT) > 0) AS a",
    "sum(1 + CAST(z AS INT)) AS a, first(x) AS f",
)
KEYS = ("", "GROUP BY k", "GROUP BY CAST(z AS INT)")
ROWS = st.lists(
    st.tuples(
        st.sampled_from("uv"),
        st.sampled_from("ab"),
        st.sampled_from([None, 0, 1]),
        st.sampled_from(["1", "2", "3", None, "x"]),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=12,
)
RULES = st.sampled_from([{"delay": 0}, {"delay": 3}, {"slack": 1}, {"ordered": True}])


def found_or_error(find: Any) -> list[Row] | str:
    try:
        return bag(tuples(find()))
    except RunError as error:
        return error.message


@settings(deadline=None, max_examples=120)
@given(
    rows=ROWS,
    rule=RULES,
    window=st.sampled_from(WINDOWS),
    calls=st.sampled_from(CALLS),
    keys=st.sampled_from(KEYS),
    late=st.sampled_from(["", " LATE SIDE", " LATE AMEND FOR 4"]),
    cut=st.sampled_from([1, 3, None]),
    restart=st.sampled_from([None, 2]),
)
def test_one_error_for_all(
    rows: list[Row],
    rule: dict[str, Any],
    window: str,
    calls: str,
    keys: str,
    late: str,
    cut: int | None,
    restart: int | None,
) -> None:
    assert_one_error(rows, rule, window, calls, keys, late, cut, restart)


@settings(deadline=None, max_examples=150)
@given(
    rows=ROWS,
    rule=RULES,
    window=st.sampled_from(BY_TUPLE),
    calls=st.sampled_from(CALLS),
    keys=st.sampled_from(KEYS),
    late=st.sampled_from(["", " LATE SIDE", " LATE AMEND FOR 4"]),
    cut=st.sampled_from([1, 7, None]),
    restart=st.sampled_from([None, 2]),
)
def test_tuples_between_slides_by_tuple(
    rows: list[Row],
    rule: dict[str, Any],
    window: str,
    calls: str,
    keys: str,
    late: str,
    cut: int | None,
    restart: int | None,
) -> None:
    """Whether a tuple is in a window may show only when a later tuple opens one."""
    assert_one_error(rows, rule, window, calls, keys, late, cut, restart)


def assert_one_error(
    rows: list[Row],
    rule: dict[str, Any],
    window: str,
    calls: str,
    keys: str,
    late: str,
    cut: int | None,
    restart: int | None,
) -> None:
    if "AMEND" in late:
        window = window.replace("/*+", "/* ").replace("CAST(z AS INT)", "k")
    sql = f"SELECT {window.format(calls=calls)} FROM s {keys}{late}"
    given_rows = Stream(SCHEMA, rows, ps.progress("t", **rule))
    expected = found_or_error(lambda: ask(sql, s=given_rows).collect())
    if restart is None or "AMEND" in late:
        assert found_or_error(lambda: locally(sql, cut, s=given_rows).table) == expected
        return
    db = database(s=given_rows)
    recut(db, cut)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    store = MemoryStore()
    parts = found_or_error(lambda: run_in_parts(query.plan, restart, lambda: store).rows)
    assert parts == expected


@pytest.mark.parametrize("cut", [1, 7, None])
def test_no_window_by_tuple_contains_it(cut: int | None) -> None:
    """The second tuple lies between two windows, and so does the late one at 2."""
    given_rows = [("1", 1), ("x", 9), ("3", 20), ("x", 2), ("5", 30)]
    rows = [("u", "a", 1, z, t) for z, t in given_rows]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=15))
    sql = "SELECT sum(CAST(z AS INT)) AS a [RANGE 4, RATTR t, SLIDE 2 ROWS, SATTR row-num] FROM s"
    assert [row[-1] for row in tuples(locally(sql, cut, s=stream).table)] == [1, 3, 5]
    assert_same(sql, (cut,), s=stream)


@settings(deadline=None, max_examples=120)
@given(
    data=st.data(),
    rows=ROWS,
    rule=RULES,
    window=st.sampled_from(WINDOWS),
    calls=st.sampled_from(CALLS),
    keys=st.sampled_from(KEYS),
    per=st.sampled_from([None, "link"]),
)
def test_one_error_on_spark(
    data: st.DataObject,
    rows: list[Row],
    rule: dict[str, Any],
    window: str,
    calls: str,
    keys: str,
    per: str | None,
) -> None:
    sql = f"SELECT {window.format(calls=calls)} FROM s {keys}"
    query = ask(sql, s=Stream(SCHEMA, rows, ps.progress("t", per=per, **rule)))
    expected = found_or_error(query.collect)
    job = WithoutSpark(query.plan, 2)
    planned = {"s": data.draw(cuts(len(rows)))}

    def on_spark() -> Any:
        run_in_cuts(job, query, planned, 2, set())
        return job.received.table(query.plan)

    assert found_or_error(on_spark) == expected


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_filter_comes_first(algorithm: Algorithm) -> None:
    rows = [("u", "a", 1, z, t) for t, z in enumerate(["1", "x", "3"])]
    stream = Stream(SCHEMA, rows, ps.progress("t", ordered=True))
    for call in ("sum(CAST(z AS INT))", "max(CAST(z AS INT) + x)", "sum(9223372036854775807 + 1)"):
        where = "z = 'y'" if "+ 1" in call else "z <> 'x'"
        sql = f"SELECT /*+ {algorithm.name} */ {call} FILTER (WHERE {where}) AS a"
        assert_same(f"{sql} [RANGE 5, SLIDE 5, WA t] FROM s", s=stream)
