"""OVER and LIMIT over thousands of rows, out of order and in pieces, agree with DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

SIZE, DELAY = 4000, 300
FRAMES = [
    "RANGE BETWEEN 40 PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN 90 PRECEDING AND 15 FOLLOWING",
    "RANGE BETWEEN 30 PRECEDING AND 10 PRECEDING",
    "GROUPS BETWEEN 4 PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN 9 PRECEDING AND 2 FOLLOWING",
    "",
]
ROW_FRAMES = [
    "ROWS BETWEEN 7 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 3 PRECEDING AND 4 FOLLOWING",
    "ROWS BETWEEN 90 PRECEDING AND 60 PRECEDING",
    "ROWS UNBOUNDED PRECEDING",
]
CALLS = [
    *("count(*)", "count(x)", "sum(i)", "sum(x)", "avg(x)", "min(s)", "max(x)", "max(i)"),
    *("sum(i) FILTER (WHERE x > 1)", "bool_or(i > 7)"),
]
PLACES = ["lag(i)", "lead(s, 3, 'none')", "first_value(s)", "last_value(x)", "row_number()"]
KNOWN = ["lag(i IGNORE NULLS)", "lag(s, 3, 'none' IGNORE NULLS)"]
KNOWN_IN_FRAMES = ["first_value(s IGNORE NULLS)", "last_value(x IGNORE NULLS)"]
EXCLUDED = ["CURRENT ROW", "GROUP", "TIES", "NO OTHERS"]
SHARES = ["ntile(7)", "percent_rank()", "cume_dist()", "lead(x, 2 IGNORE NULLS)"]
SHARES += ["nth_value(s, 3 IGNORE NULLS)"]
LIMITS = [
    (
        "SELECT n FROM s ORDER BY x DESC NULLS LAST, n LIMIT 3 BY time_bucket(50, t), k",
        "SELECT n FROM s QUALIFY row_number() OVER (PARTITION BY floor(t / 50.0), k"
        " ORDER BY x DESC NULLS LAST, n) <= 3",
    ),
    (
        "SELECT n FROM s ORDER BY x DESC NULLS LAST, n LIMIT 3 OFFSET 2 BY time_bucket(50, t), k",
        "SELECT n FROM s QUALIFY row_number() OVER (PARTITION BY floor(t / 50.0), k"
        " ORDER BY x DESC NULLS LAST, n) BETWEEN 3 AND 5",
    ),
    (
        "SELECT k, window_end, count(*) AS c, sum(i) AS w [RANGE 60, SLIDE 30, WA t] FROM s"
        " GROUP BY k ORDER BY c DESC, w, k LIMIT 2",
        "WITH w AS (SELECT 30 * (floor(t / 30.0) + 1 + h) AS e, k, i FROM s, range(2) r(h)),"
        " g AS (SELECT k, e, count(*) AS c, sum(i) AS w FROM w GROUP BY ALL)"
        " SELECT k, e::BIGINT, c, w FROM g QUALIFY row_number() OVER"
        " (PARTITION BY e ORDER BY c DESC, w NULLS LAST, k NULLS LAST) <= 2",
    ),
    (
        "SELECT n FROM (SELECT *, row_number() OVER (PARTITION BY i, k ORDER BY t, n) AS r FROM s)"
        " WHERE r = 1",
        "SELECT n FROM s QUALIFY row_number() OVER (PARTITION BY i, k ORDER BY t, n) = 1",
    ),
    (
        "SELECT n, r FROM (SELECT n, dense_rank() OVER (PARTITION BY time_bucket(90, t) ORDER BY i)"
        " AS r FROM s) WHERE r < 4",
        "SELECT n, r FROM (SELECT n, dense_rank() OVER (PARTITION BY floor(t / 90.0) ORDER BY i"
        " NULLS LAST) AS r FROM s) WHERE r < 4",
    ),
]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """NULLs in all columns but the time, equal times, times before 0."""
    rng = np.random.default_rng(13)

    def some_null(values: Any) -> pa.Array:
        return pa.array(values, mask=rng.random(SIZE) < 0.1)

    ticks = rng.integers(0, 3, SIZE).cumsum() - SIZE // 2 - rng.integers(0, DELAY, SIZE)
    return pa.table(
        {
            "n": np.arange(SIZE),
            "k": some_null(rng.integers(0, 5, SIZE)),
            "i": some_null(rng.integers(-20, 20, SIZE).astype(np.int32)),
            "x": some_null(rng.integers(-9, 9, SIZE) / 2),
            "s": some_null(rng.choice(["weir", "sluice", "", "Ä"], SIZE)),
            "t": ticks,
        }
    )


def ours(table: pa.Table, sql: str, cut: int) -> list[str]:
    db = ps.connect("local")
    db.stream("s", table.to_batches(max_chunksize=cut), progress=ps.progress("t", delay=DELAY))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    found = query.collect()
    assert query.account.late == 0
    return _bag(zip(*(each.to_pylist() for each in found.columns), strict=True))


def theirs(table: pa.Table, sql: str) -> list[str]:
    with duckdb.connect() as connection:
        connection.register("s", table)
        return _bag(connection.sql(sql).fetchall())


def _bag(rows: Any) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("partition", ["", "PARTITION BY k "])
@pytest.mark.parametrize("cut", [61, SIZE])
def test_frames_by_time(table: pa.Table, partition: str, cut: int) -> None:
    made = [f"{call} OVER ({partition}ORDER BY t {each})" for call in CALLS for each in FRAMES]
    _same(table, made, cut)


@pytest.mark.parametrize("partition", ["", "PARTITION BY k "])
@pytest.mark.parametrize("cut", [61, SIZE])
def test_frames_by_rows(table: pa.Table, partition: str, cut: int) -> None:
    made = [
        f"{call} OVER ({partition}ORDER BY t, n {each})"
        for call in (*CALLS, *PLACES)
        for each in (ROW_FRAMES if call not in ("row_number()", *PLACES[:2]) else [""])
    ]
    _same(table, made, cut)


@pytest.mark.parametrize("partition", ["", "PARTITION BY k "])
@pytest.mark.parametrize("cut", [61, SIZE])
def test_nulls_that_are_passed_over(table: pa.Table, partition: str, cut: int) -> None:
    made = [f"{call} OVER ({partition}ORDER BY t, n)" for call in KNOWN]
    for call in KNOWN_IN_FRAMES:
        made += [f"{call} OVER ({partition}ORDER BY t, n {each})" for each in ROW_FRAMES]
    _same(table, made, cut)


@pytest.mark.parametrize("excluded", EXCLUDED)
@pytest.mark.parametrize("cut", [61, SIZE])
def test_rows_that_frames_leave_out(table: pa.Table, excluded: str, cut: int) -> None:
    """Over time, where rows are answered one time after the other, and over whole partitions."""
    frames = [*FRAMES[:-1], "RANGE UNBOUNDED PRECEDING"]
    made = [
        f"{call} OVER (PARTITION BY k ORDER BY t {frame} EXCLUDE {excluded})"
        for call in ("count(*)", "sum(i)", "min(s)", "max(x)", "bool_or(i > 7)")
        for frame in frames
    ]
    made += [f"median(i) OVER (ORDER BY t {frames[0]} EXCLUDE {excluded})"]
    rows = [
        "ROWS 2 PRECEDING",
        "ROWS UNBOUNDED PRECEDING",
        "ROWS BETWEEN 4 PRECEDING AND 2 PRECEDING",
    ]
    for call in (*PLACES[2:4], *KNOWN_IN_FRAMES):
        made += [f"{call} OVER (PARTITION BY k ORDER BY t, n {e} EXCLUDE {excluded})" for e in rows]
    made.append(f"nth_value(x, 2) OVER (PARTITION BY k ORDER BY t, n {rows[0]} EXCLUDE {excluded})")
    _same(table, made, cut)
    ends = ["BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING", "BETWEEN 1 FOLLOWING AND 2 FOLLOWING"]
    made = [
        f"{call} OVER (PARTITION BY {{bucket}}, k ORDER BY i NULLS LAST {unit} {end}"
        f" EXCLUDE {excluded})"
        for call in ("count(x)", "sum(x)", "min(s)")
        for unit in ("RANGE", "GROUPS")
        for end in ends
    ]
    _same_in_buckets(table, made, cut)


@pytest.mark.parametrize("cut", [61, SIZE])
def test_shares_of_partitions(table: pa.Table, cut: int) -> None:
    made = [
        f"{call} OVER (PARTITION BY {{bucket}}, k ORDER BY {order})"
        for call in SHARES
        for order in ("i NULLS LAST, n", *(["x NULLS LAST"] if call.endswith("()") else []))
    ]
    _same_in_buckets(table, made, cut)


@pytest.mark.parametrize("cut", [61, SIZE])
def test_lengths_in_descending_order(table: pa.Table, cut: int) -> None:
    made = [
        f"{call} OVER (PARTITION BY {{bucket}}, k ORDER BY i DESC NULLS {nulls} RANGE {frame})"
        for call in ("count(*)", "sum(x)", "max(s)")
        for nulls in ("FIRST", "LAST")
        for frame in (
            "BETWEEN 7 PRECEDING AND 3 FOLLOWING",
            "BETWEEN 12 PRECEDING AND 2 PRECEDING",
            "BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING",
        )
    ]
    _same_in_buckets(table, made, cut)


def _same_in_buckets(table: pa.Table, calls: list[str], cut: int) -> None:
    shown = ", ".join(f"{each} AS c{place}" for place, each in enumerate(calls))
    sql = f"SELECT n, {shown} FROM s"
    given = ours(table, sql.format(bucket="time_bucket(90, t)"), cut)
    assert given == theirs(table, sql.format(bucket="floor(t / 90.0)"))


def _same(table: pa.Table, calls: list[str], cut: int) -> None:
    shown = ", ".join(f"{each} AS c{place}" for place, each in enumerate(calls))
    sql = f"SELECT n, {shown} FROM s"
    assert ours(table, sql, cut) == theirs(table, sql)


@pytest.mark.parametrize(("sql", "in_duckdb"), LIMITS)
def test_limits(table: pa.Table, sql: str, in_duckdb: str) -> None:
    for cut in (61, SIZE):
        assert ours(table, sql, cut) == theirs(table, in_duckdb)
