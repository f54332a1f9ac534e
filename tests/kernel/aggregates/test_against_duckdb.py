"""Aggregates give what those of DuckDB give: in windows, in sessions and as running answers, with
NULLs, duplicates and times below zero."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

SAME = [
    *("count(*)", "count(x)", "count(DISTINCT x)", "sum(x)", "sum(DISTINCT x)", "avg(x)", "min(s)"),
    *("max(b)", "bool_and(b)", "bool_or(b)", "bit_and(x)", "bit_or(x)", "bit_xor(x)", "sum(d)"),
    *("covar_pop(d, x)", "covar_samp(d, x)", "regr_avgx(d, x)", "regr_avgy(d, x)", "median(d)"),
    *("regr_count(d, x)", "regr_sxx(d, x)", "regr_syy(d, x)", "regr_sxy(d, x)"),
    *("var_samp(x)", "stddev_pop(d)", "sum(x) FILTER (WHERE b)", "max(x) - min(x)"),
    *("count(DISTINCT x) FILTER (WHERE b)", "string_agg(s, ',') FILTER (WHERE x > 99)"),
    *("string_agg(s, ',' ORDER BY n)", "string_agg(s, '' ORDER BY t DESC, n)"),
    "quantile_disc(x, 0.3)",
]
PAIRS = [  # ours, and the same in DuckDB
    ("corr(d, x)", "CASE WHEN isnan(corr(d, x)) THEN NULL ELSE corr(d, x) END"),
    ("regr_slope(d, x)", "CASE WHEN isnan(regr_slope(d, x)) THEN NULL ELSE regr_slope(d, x) END"),
    ("count_if(x > 0)", "count(*) FILTER (WHERE x > 0)"),
    ("any_value(x)", "min(x)"),
    ("every(b)", "bool_and(b)"),
    ("string_agg(s, ',')", "string_agg(s, ',' ORDER BY s)"),
    ("listagg(DISTINCT s, ',')", "string_agg(DISTINCT s, ',' ORDER BY s)"),
    ("listagg(s, '-') WITHIN GROUP (ORDER BY n DESC)", "string_agg(s, '-' ORDER BY n DESC)"),
    ("collect_set(x)", "list(DISTINCT x ORDER BY x) FILTER (WHERE x IS NOT NULL)"),
    ("array_agg(x ORDER BY d, n)", "list(x ORDER BY d NULLS LAST, n) FILTER (WHERE x IS NOT NULL)"),
    (
        "first(x ORDER BY d DESC, n)",
        "first(x ORDER BY d DESC NULLS FIRST, n) FILTER (WHERE x IS NOT NULL)",
    ),
    ("last_value(s ORDER BY n)", "last(s ORDER BY n) FILTER (WHERE s IS NOT NULL)"),
    (
        "count(DISTINCT x, s)",
        "count(DISTINCT (x, s)) FILTER (WHERE x IS NOT NULL AND s IS NOT NULL)",
    ),
    ("percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", "quantile_cont(x, 0.5)"),
    ("max_by(s, x)", "max(s) FILTER (WHERE x = top)"),
    ("arg_min(n, t)", "first(n ORDER BY t, n)"),
]
CALLS = [*((each, each) for each in SAME), *PAIRS]
KINDS = {  # the window of ours, and a start for every row in DuckDB
    "tumbling": ("[RANGE 7, SLIDE 7, WA t]", "SELECT *, (7 * floor(t / 7.0))::INT AS w FROM s"),
    "hopping": (
        "[RANGE 8, SLIDE 4, WA t]",
        "SELECT *, (4 * floor(t / 4.0))::INT - 4 * h AS w FROM s, range(2) AS r(h)",
    ),
    "session": (
        "[SESSION GAP 3, WA t]",
        "SELECT * EXCLUDE (begins), max(CASE WHEN begins THEN t END) OVER"
        " (PARTITION BY k ORDER BY t, n) AS w FROM (SELECT *, coalesce(t - lag(t) OVER"
        " (PARTITION BY k ORDER BY t, n) >= 3, true) AS begins FROM s)",
    ),
    "running": ("", "SELECT *, NULL AS w FROM s"),
}
ROW = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([None, -3, 0, 5, 7]),
    st.sampled_from([None, 0.5, -2.25, 4.0]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "", "x", "é"]),
    st.integers(-20, 20),
)
SCHEMA = pa.schema(
    [
        *(("n", pa.int32()), ("k", pa.string()), ("x", pa.int32()), ("d", pa.float64())),
        *(("b", pa.bool_()), ("s", pa.string()), ("t", pa.int32())),
    ]
)


def plain(value: Any) -> Any:
    match value:
        case float() | Decimal() if math.isfinite(value):
            return round(float(value), 9) + 0.0
        case list():
            return [plain(each) for each in value]
        case _:
            return value


def bag(rows: Any) -> list[str]:
    return sorted(repr([plain(each) for each in row]) for row in rows)


@pytest.mark.parametrize("engine", ["reference", "local"])
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=12)
@given(rows=st.lists(ROW, min_size=1, max_size=20), cut=st.sampled_from([1, 4, 20]))
def test_like_duckdb(engine: str, kind: str, rows: list[tuple[Any, ...]], cut: int) -> None:
    columns = zip(*((number, *row) for number, row in enumerate(rows)), strict=True)
    arrays = [pa.array(each, f.type) for each, f in zip(columns, SCHEMA, strict=True)]
    table = pa.table(arrays, SCHEMA)
    window, starts = KINDS[kind]
    ours = ", ".join(f"{call} AS c{place}" for place, (call, _) in enumerate(CALLS))
    theirs = ", ".join(f"{call} AS c{place}" for place, (_, call) in enumerate(CALLS))
    start = "k" if kind == "running" else "window_start"
    db = ps.connect(engine)
    db.stream("s", table.to_batches(cut), progress=ps.progress("t", delay=100))
    emit = "EMIT CHANGES" if kind == "running" else ""
    query = db.sql(f"SELECT {start} AS w, k, {ours} {window} FROM s GROUP BY k {emit}")
    assert isinstance(query, ps.Query)
    found = query.collect().select(["w", "k", *(f"c{place}" for place in range(len(CALLS)))])
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("s", table)
        over = "FILTER (WHERE s IS NOT NULL) OVER (PARTITION BY w, k)"
        numbered = f"SELECT *, max(x) {over} AS top FROM ({starts})"
        shown = "k" if kind == "running" else "w"
        expected = connection.sql(
            f"SELECT {shown} AS w, k, {theirs} FROM ({numbered}) AS q GROUP BY q.w, k"
        ).fetchall()
    assert bag(tuple(row.values()) for row in found.to_pylist()) == bag(expected)
