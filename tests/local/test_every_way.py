"""Every aggregate, window, algorithm, batch cut, order of arrival and restart: one answer.

The product is too large to be walked through, so Hypothesis samples it.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.functions.aggregate_functions import AGGREGATES
from penstock.kernel.state import MemoryStore
from penstock.plan.algorithms import Algorithm
from tests.local.helpers import locally, recut
from tests.local.resumed import run_in_parts
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples

SCHEMA = "k STRING, x INT, y DOUBLE, s STRING, t INT"
CALLS = (
    "count(*)",
    "count(x)",
    "count(DISTINCT x)",
    "sum(x)",
    "sum(y)",
    "sum(DISTINCT x)",
    "sum(x) FILTER (WHERE y > 0.2)",
    "min(x)",
    "min(s)",
    "max(y)",
    "avg(y)",
    "var_samp(y)",
    "var_pop(x)",
    "stddev_samp(x)",
    "stddev_pop(y)",
    "first(s)",
    "last(x)",
    "min_by(s, y)",
    "max_by(x, s)",
    "any_value(s)",
    "bool_and(x > 0)",
    "bool_or(y > 0.2)",
    "count(DISTINCT x, s)",
    "string_agg(s, ', ')",
    "string_agg(DISTINCT s, '')",
    "histogram(y)",
    "array_agg(s)",
    "array_agg(x ORDER BY y DESC, s)",
    "collect_set(s)",
    "bit_and(x)",
    "bit_or(x)",
    "bit_xor(x)",
    "corr(x, y)",
    "covar_samp(y, x)",
    "covar_pop(x, y)",
    "regr_intercept(y, x)",
    "regr_slope(y, x)",
    "regr_r2(x, y)",
    "regr_avgx(y, x)",
    "regr_avgy(y, x)",
    "regr_sxx(y, x)",
    "regr_syy(y, x)",
    "regr_sxy(y, x)",
    "regr_count(y, x)",
    "median(y)",
    "quantile(x, 0.25)",
    "quantile_disc(s, 0.25)",
    "mode(s)",
    "top_k(s, 2)",
    "heavy_hitters(x, 0.25)",
    "approx_count_distinct(x)",
    "approx_quantile(y, 0.5)",
    "approx_top_k(s, 2)",
    "approx_heavy_hitters(x, 0.25)",
)
# What a window over values contains does not depend on the order of arrival.
OVER_VALUES = (
    *(
        f"SELECT /*+ {algorithm.name} */ {{calls}} [{window}, WA t] FROM s {{keys}}"
        for algorithm in Algorithm
        for window in ("RANGE 10, SLIDE 3", "RANGE 6, SLIDE 6", "RANGE 2, SLIDE 7")
    ),
    "SELECT {calls} [RANGE ALL, SLIDE 4, WA t] FROM s {keys}",
    "SELECT {calls} [RANGE 6, RATTR t, SLIDE 1 ROW, SATTR rank(t)] FROM s {keys}",
    "SELECT t, {calls} FROM s GROUP BY t, k",
    "SELECT t + 3 AS u, {calls} FROM s GROUP BY t + 3",
)
OVER_ROWS = (
    "SELECT {calls} [RANGE 5 ROWS, SLIDE 2 ROWS, WA row-num] FROM s {keys}",
    "SELECT {calls} [RANGE 5 ROWS, SLIDE 2 ROWS, WA row-num, PA k] FROM s {keys}",
    "SELECT {calls} [RANGE 64 ROWS, SLIDE 32 ROWS, WA row-num, PA k] FROM s {keys}",
    "SELECT {calls} [RANGE ALL, SLIDE 3 ROWS, WA row-num, PA k] FROM s {keys}",
    "SELECT {calls} [RANGE 4 ROWS, SLIDE 3 ROWS, WA rank(t)] FROM s {keys}",
    "SELECT {calls} [RANGE 4 ROWS, SLIDE 1 ROWS, WA rank(t), PA k] FROM s {keys}",
    "SELECT {calls} [RANGE 9, RATTR t, SLIDE 2 ROWS, SATTR row-num] FROM s {keys}",
    "SELECT {calls} [RANGE 9, RATTR t, SLIDE 2 ROWS, SATTR row-num, PA k] FROM s {keys}",
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, -1, 0, 1, 2, 2**31 - 1]),
        st.sampled_from([None, 0.0, 0.1, 0.5, 1e16, -1e16, float("inf"), float("nan")]),
        st.sampled_from([None, "", "u", "v"]),
        st.integers(-20, 30),
    ),
    min_size=1,
    max_size=20,
)
CUTS = (1, 7, 1000, None)
COVERED = 100  # a delay behind which nothing is late


def test_every_aggregate_is_among_them() -> None:
    """And some that are made of others, such as collect_set."""
    assert {call.partition("(")[0] for call in CALLS} >= set(AGGREGATES)


@settings(deadline=None, max_examples=250)
@given(
    data=st.data(),
    rows=ROWS,
    calls=st.lists(st.sampled_from(CALLS), min_size=1, max_size=4, unique=True),
    select=st.sampled_from(OVER_VALUES + OVER_ROWS),
    keys=st.sampled_from(["", "GROUP BY k", "GROUP BY k, s"]),
    delay=st.sampled_from([0, 4, COVERED]),
    cut=st.sampled_from(CUTS),
    restart=st.sampled_from([None, 1, 2, 5]),
)
def test_one_answer(
    data: st.DataObject,
    rows: list[Row],
    calls: list[str],
    select: str,
    keys: str,
    delay: int,
    cut: int | None,
    restart: int | None,
) -> None:
    named = ", ".join(f"{call} AS a{number}" for number, call in enumerate(calls))
    sql = select.format(calls=named, keys=keys) + " LATE SIDE"
    progress = ps.progress("t", delay=delay)
    arriving = Stream(SCHEMA, data.draw(st.permutations(rows), label="arrivals"), progress)
    reference = ask(sql, s=arriving)
    expected, late = bag(tuples(reference.collect())), bag(tuples(reference.late))
    if restart is None:
        found = locally(sql, cut, s=arriving)
        assert bag(tuples(found.table)) == expected
        assert bag(tuples(found.late)) == late
    else:
        db = database(s=arriving)
        recut(db, cut)
        query = db.sql(sql)
        assert isinstance(query, ps.Query)
        store = MemoryStore()
        found_in_parts = run_in_parts(query.plan, restart, lambda: store)
        assert bag(tuples(found_in_parts.rows)) == expected
        rest = found_in_parts.late
        assert bag(tuples(rest) if rest is not None else []) == late
    if delay == COVERED and select in OVER_VALUES:
        assert bag(tuples(ask(sql, s=Stream(SCHEMA, rows, progress)).collect())) == expected
